"""Schema registries: which records need one, and copying its schemas to another registry with the same ids.

catalog     reads subjects, versions, compatibility and modes of a registry
comparison  what the target's registry lacks, and where both mean different things (pure)
needs       which topics need a registry, and whether both registries have their schemas
recordids   the ids of schemas in a record (pure)
registry    a client of one registry
sampling    samples the records of a cluster's topics
schema      a schema as registries describe it (pure)
transfer    registers what is missing at the target, and verifies it

A serializer writes the id of a schema in front of a record, and a deserializer asks its registry for that id. So
records that are copied byte by byte mean the same at the target only if its registry has the same schemas under the
same ids.

Registries assign ids themselves, except in the mode IMPORT, in which a client gives id and version
(https://docs.confluent.io/platform/current/schema-registry/develop/api.html). kproxy sets this mode for each subject to
which it adds something, and at the end sets the mode that the subject has at the source. It never assumes that a
registry has done what it confirmed: the ids in replies are compared, and at the end each version and each id is read
again from the target.

An id is unique within a context. A subject `:.NAME:subject` is in the context `.NAME`, all others are in the context
`.`. If both registries have ids of their own, the same id may mean two things. Then kproxy changes nothing and names
both; `schemas.context` copies into a context of the target instead.

Everything that asks a registry raises RegistryError. A registry may be any program: replies are bounded in size and
time, redirects are not followed, and what it sends is shown escaped. Its credentials are never shown.
"""
