"""The broker addresses inside responses: which have them, finding them, replacing them. Sans-IO.

    endpoints    the one table of address-bearing responses, and what an endpoint is
    plan         a message definition and a version, compiled to the steps of a walk
    walk         taking those steps over bytes that arrive in any chunks
    splice       replacing what the walk found, at a new length or at the same
    response     one response on its way through: hold, walk, splice, stream
    plain        responses of the usual shape, which name no endpoint: told without a walk
    apiversions  ApiVersions responses: capping to what kproxy can rewrite
    features     the tagged fields of an ApiVersions response

Nothing outside this room edits a frame.
"""
