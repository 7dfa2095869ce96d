#!/usr/bin/env bash
# Builds etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok from their Go modules into the cache.
# Cold about 8 minutes on 2 cores; with everything there it does nothing and needs no Go.
set -euo pipefail
cache=${HINDGRAPH_TEST_CACHE:-$HOME/.cache/hindgraph-test}
kubernetes=v1.36.3 staging=v0.36.3 kwok=v0.7.0 etcd=v3.6.8
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # two test runs build once
export GOFLAGS=-mod=mod

begin() { # begin FOLDER TEXT-OF-GO.MOD: a module of its own around the package that is built
  mkdir -p "$1"
  cd "$1"
  printf '%s\n' "$2" >go.mod
}

if [ ! -x "$cache/etcd/etcd" ]; then
  begin "$cache/etcd" $'module build/etcd\n\ngo 1.24.0'
  go get "go.etcd.io/etcd/server/v3@$etcd"
  go build -o etcd go.etcd.io/etcd/server/v3
fi

if [ ! -x "$cache/k8s/bin/kube-scheduler" ]; then
  # Kubernetes replaces its staging modules by folders of its repository; outside it, by what was published of them.
  source=$(cd / && go mod download -json "k8s.io/kubernetes@$kubernetes" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  replaced=$(sed -nE "s#^\t(k8s.io/\S+) => ./staging.*#\t\1 => \1 $staging#p" "$source/go.mod")
  begin "$cache/k8s" "module build/k8s"$'\n\ngo 1.26.0\n\n'"require k8s.io/kubernetes $kubernetes"$'\n\nreplace (\n'"$replaced"$'\n)'
  commands=(kube-apiserver kube-controller-manager kube-scheduler)
  { printf '//go:build tools\n\npackage tools\n\nimport (\n'; printf '\t_ "k8s.io/kubernetes/cmd/%s"\n' "${commands[@]}"; printf ')\n'; } >tools.go
  go mod tidy
  go build -o bin/ "${commands[@]/#/k8s.io/kubernetes/cmd/}"
fi

if [ ! -x "$cache/kwok/kwok" ]; then
  begin "$cache/kwok" $'module build/kwok\n\ngo 1.26.0'
  go get "sigs.k8s.io/kwok/cmd/kwok@$kwok"
  go build -o kwok sigs.k8s.io/kwok/cmd/kwok
fi
