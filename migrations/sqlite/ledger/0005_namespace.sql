-- What changed in one namespace within minutes is found by its objects, however busy the others are.
CREATE INDEX object_namespace ON object (namespace);
