// Package httpworld connects worlds over HTTP. [Start] runs a world in any language: a directory with
// a file world.toml, whose command serves the API below. [NewHandler] serves any [segno.World] over the same API,
// so that agents that are other processes can act in it.
//
//	GET  /api.md     200 when the world is ready; how to act, for agents
//	POST /join       {"name": "Ada"}   with X-Session; 200
//	GET  /observe    with X-Session; 200 and the observation
//	POST /act        the action, with X-Session; 200 and the observation
//	GET  /snapshot   with X-Operator-Token; 200 and the document, 401 without the token
//	POST /advance    {"seconds": 60}   with X-Operator-Token; 200
//
// If the document has a member "outcomes", it contains numbers by name; see [world.Outcomes].
//
// An error has a body {"error": "…"} and the status 400 (malformed), 401 (no token), 404
// (unknown session), 409 (the name is in use) or 422 (the rules forbid it now), and changes
// nothing.
//
// The command gets WORLD_HOST, WORLD_PORT and WORLD_OPERATOR_TOKEN. If it must begin with a saved document, it also
// gets WORLD_RESUME_PATH, the path of that document. It must then either be exactly the saved world or exit. Start
// compares the document of the resumed world, so it refuses a world that ignores the variable.
package httpworld
