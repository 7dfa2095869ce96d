"""Cases of the checks of routes, certificates and names."""

from __future__ import annotations

from diagnose.checks import routes as rules
from tests.diagnose.cases import Cases
from tests.diagnose.kit import service
from tests.diagnose.world import World, obj


def ingress(port: object = 80, to: str = "cart", **more) -> dict:
    where = {"number": port} if isinstance(port, int) else {"name": port}
    path = {"path": "/", "backend": {"service": {"name": to, "port": where}}}
    return obj("networking.k8s.io/v1", "Ingress", "front", spec={"rules": [{"http": {"paths": [path]}}]} | more)


def route(port: int = 80) -> dict:
    rules = [{"backendRefs": [{"name": "cart", "port": port}]}]
    return obj("gateway.networking.k8s.io/v1", "HTTPRoute", "front", spec={"rules": rules})


TLS = {"tls": [{"secretName": "front-tls"}]}


def certificate(end: str, begin: str = "1969-01-01T00:00:00Z") -> dict:
    return obj("v1", "Secret", "front-tls", data={"tls.crt": {"not_before": begin, "not_after": end}})


ISSUED = {"annotations": {"cert-manager.io/issuer": "a"}}
CLASS = obj("networking.k8s.io/v1", "IngressClass", "edge")
BACKEND = Cases(rules.route_backend_missing)
BACKEND.find(World(service(), ingress()).put(ingress(8081), ago=60), "Ingress/front", "Ingress/front")
BACKEND.find(World(service(), ingress()).remove(service(), ago=60), "Service/cart", "Service/cart")
BACKEND.find(World(service(), route(81)), "HTTPRoute/front")
BACKEND.find(World(service(), ingress(**TLS)), "Ingress/front")
BACKEND.find(
    World(service(), CLASS, ingress(ingressClassName="edge")).put(ingress(ingressClassName="egde"), ago=60),
    "Ingress/front", "Ingress/front",
)  # fmt: skip
BACKEND.quiet(
    World(service(), ingress(), ingress("http"), route()),
    World(ingress(), unwatched=("core/Service",)),
    World(service()).put(ingress(to="web"), ago=5),
    World(service(), ingress(ingressClassName="cloud")),
    World(service(), obj("networking.k8s.io/v1", "Ingress", "front", meta=ISSUED,
                         spec=ingress(**TLS)["spec"])),
)  # fmt: skip

ENDED = Cases(rules.certificate_expired)
ENDED.find(World(service(), ingress(**TLS), certificate("1970-01-01T01:00:00Z")), "Secret/front-tls")
ENDED.find(World(service(), ingress(**TLS), certificate("1970-01-04T00:00:00Z")), "Secret/front-tls")
ENDED.quiet(
    World(service(), ingress(**TLS), certificate("1971-01-01T00:00:00Z")),
    World(certificate("1970-01-01T01:00:00Z")),
    World(service(), ingress(**TLS), certificate("1970-01-04T00:00:00Z", "1969-12-30T00:00:00Z")),
    World(service(), ingress(**TLS), obj("v1", "Secret", "front-tls", data={"tls.crt": "no certificate"})),
)

PLAIN = (
    ".:53 {\n    kubernetes cluster.local ip6.arpa {\n       fallthrough\n    }\n    forward . /etc/resolv.conf\n}\n"
)


def corefile(line: str = "", ns: str = "kube-system") -> dict:
    return obj(
        "v1", "ConfigMap", "coredns", ns=ns, data={"Corefile": PLAIN.replace("    forward", f"    {line}\n    forward")}
    )


HIDES = Cases(rules.dns_hides_service)
for rule in (
    "rewrite name exact cart.shop.svc.cluster.local cart.gone.invalid",
    "rewrite stop name regex (.*)\\.shop\\.svc\\.cluster\\.local {1}.gone.invalid",
    "rewrite name suffix .shop.svc.cluster.local .gone.invalid",
    "template ANY ANY shop.svc.cluster.local {",
    "192.0.2.1 cart.shop.svc.cluster.local",
):
    HIDES.find(World(service(), corefile()).put(corefile(rule), ago=60), "ConfigMap/coredns", "ConfigMap/coredns")
HIDES.quiet(
    World(service(), corefile()),
    World(service(), corefile("rewrite name exact api.example.com cart.shop.svc.cluster.local")),
    World(service(), corefile("# rewrite name exact cart.shop.svc.cluster.local x.invalid")),
    World(service(), corefile("rewrite name exact web.shop.svc.cluster.local x.invalid")),
    World(service(), corefile("rewrite name exact cart.shop.svc.cluster.local x.invalid", ns="shop")),
    World(service(), corefile("template ANY ANY example.com {")),
)

CASES = [BACKEND, ENDED, HIDES]
