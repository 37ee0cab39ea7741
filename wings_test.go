package segno_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// wings has the directories of each wing, which is one product on the core. What is in no wing is the core, except the shell
// (internal/cli), the main packages, the builder of releases and the tests.
var wings = map[string][]string{
	"history":  {"internal/history/historycmd"},
	"hooks":    {"internal/hook", "cmd/segno-hook"},
	"proxy":    {"internal/proxy"},
	"chat":     {"agent", "internal/chat"},
	"archives": {"archive", "internal/pack"},
	"sessions": {"internal/sessions"},
	"page":     {"internal/web", "client"},
	"worlds":   {"world", "generation", "experiments", "internal/worlds"},
	"adapters": {"adapters"},
	"insight":  {"search", "insight"},
	"fleet":    {"fleet"},
	"transfer": {"transfer"},
}

// arrows has the libraries of a wing that another wing, or the core, imports, and the reason.
var arrows = map[string]map[string]string{
	"history": {
		"agent":               "threads lists conversations by their phase",
		"internal/chat":       "a chat continues like a session of an agent",
		"internal/hook":       "doctor runs the hooks, and the demo records a turn with them",
		"internal/hook/event": "doctor reads the log of hooks",
	},
	"adapters": {
		"agent": "a run is recorded as that of a Go agent",
	},
	"chat": {
		"generation":              "the terminal shows an experiment",
		"internal/proxy/acp":      "segno's own agent speaks ACP",
		"internal/proxy/preamble": "a session that replaces a lost one begins with it",
	},
	"fleet": {
		"agent":              "a worker runs Go agents",
		"agent/tool":         "and gives them tools",
		"client":             "send and fleet work through the API of a server",
		"internal/chat":      "an agents.toml names models as the chat does",
		"internal/web":       "the API serves the mailboxes of a fleet",
		"internal/web/wire":  "with these records",
		"internal/proxy":     "the turns of agents are recorded by the proxy",
		"internal/proxy/acp": "a runner is the client of the proxy",
	},
	"insight": {
		"internal/worlds/supervise": "the commands of a bisect end with it",
	},
	"page": {
		"agent":                 "the exports have the usage of models",
		"generation":            "the page shows experiments",
		"insight/blame":         "Agent Trace names the turn of each line",
		"insight/gitai":         "export makes the notes of git-ai",
		"internal/chat":         "the page approves tool calls",
		"search":                "the page searches, and shows excerpts",
		"internal/worlds/trend": "the page draws the outcomes of experiments",
		"world":                 "the page shows messages of a world",
		"transfer/arrivals":     "a push to a store of this machine is recorded like a pull",
	},
	"transfer": {
		"archive":       "pull makes no directory into which no archive is unpacked",
		"client":        "push and pull reach a server through it",
		"internal/chat": "a pulled chat continues",
		"internal/pack": "pull writes the files that an archive may contain",
	},
	"worlds": {
		"agent":                     "segno's own agent lives in worlds",
		"agent/tool":                "it has tools there",
		"archive":                   "a checkpoint of a generation is an archive",
		"internal/pack":             "it is made like one of a thread",
		"internal/pack/archivefile": "pause and wake write and open archives with the flags of pack",
		"internal/chat":             "wake continues a paused chat",
		"internal/chat/tui":         "the terminal shows an experiment",
		"internal/proxy/acp":        "agents in worlds are started over ACP",
		"internal/proxy/failure":    "and their failures are told apart",
		"internal/proxy/preamble":   "and a lost session of one begins again",
	},
}

// verbs has the packages with the verbs of the wings.
var verbs = []string{
	"internal/history/historycmd", "internal/hook/hookcmd", "internal/proxy/proxycmd", "internal/chat/chatcmd", "internal/pack/packcmd",
	"internal/sessions", "internal/web/webcmd", "internal/worlds/worldscmd", "search/searchcmd", "insight/insightcmd", "fleet/fleetcmd", "transfer/transfercmd",
}

// roomOf returns the wing of a package, "core", "shell", or "" for tests and main packages.
func roomOf(dir string) string {
	within := func(d string) bool { return dir == d || strings.HasPrefix(dir, d+"/") }
	for _, name := range slices.Sorted(maps.Keys(wings)) {
		if slices.ContainsFunc(wings[name], within) {
			return name
		}
	}
	switch {
	case within("internal/cli"):
		return "shell"
	case slices.ContainsFunc([]string{"internal/testing", "release", "bench", "cmd", "store/storetest", "store/kv/kvtest", "store/postgres/buckettest"}, within):
		return ""
	}
	return "core"
}

// TestWingsCanBeTakenAway checks that only the main packages know the verbs of a wing. A command without the line of a wing in
// cmd/segno is then the same command without its verbs.
func TestWingsCanBeTakenAway(t *testing.T) {
	for dir, p := range packages(t) {
		for _, imp := range p.Imports {
			verb := strings.TrimPrefix(imp, module+"/")
			if slices.Contains(verbs, verb) && dir != "cmd/segno" && dir != "internal/testing/wings" {
				t.Errorf("%s imports %s, which has the verbs of a wing", dir, verb)
			}
		}
	}
}

// TestArrowsBetweenWingsAreDeclared checks that a wing imports the core, the shell, and the declared libraries of other wings.
func TestArrowsBetweenWingsAreDeclared(t *testing.T) {
	used := map[string]bool{}
	for dir, p := range packages(t) {
		from := roomOf(dir)
		for _, imp := range p.Imports {
			to := strings.TrimPrefix(imp, module+"/")
			room := roomOf(to)
			if !strings.HasPrefix(imp, module+"/") || from == "" || room == from || room == "core" || room == "" || room == "shell" && from != "core" {
				continue
			}
			if arrows[from][to] == "" {
				t.Errorf("%s imports %s: the arrow from %s to %s is not declared", dir, to, from, room)
			}
			used[from+" "+to] = true
		}
	}
	for from, libraries := range arrows {
		for to := range libraries {
			if !used[from+" "+to] {
				t.Errorf("no package of %s imports %s, so the arrow can go", from, to)
			}
		}
	}
}
