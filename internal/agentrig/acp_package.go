package agentrig

import (
	"bytes"
	"context"
	"runtime"
	"strings"
)

// What the agents run on is pinned as they are. Node is installed too, since what a
// machine has is often older than they need.
const (
	nodeVersion  = "22.23.3"
	codexVersion = "0.166.0"
	acpxVersion  = "0.19.1"
)

// installNode returns the path of node. The package of the platform is taken: the
// one named node only fetches it.
func installNode(ctx context.Context) (string, error) {
	name := "node-" + platform()
	if runtime.GOOS == "darwin" && runtime.GOARCH == "arm64" {
		name = "node-bin-" + platform()
	}
	return npmPackage{name: name, version: nodeVersion, file: name + "/bin/node"}.install(ctx)
}

func acpPackage(agent ACPAgent) npmPackage {
	name, version, _ := strings.Cut(string(agent), "@")
	name = "@agentclientprotocol/" + name
	p := npmPackage{name: name, version: version, file: name + "/dist/index.js"}
	if agent == Codex26 {
		p.with = []string{"@openai/codex@" + codexVersion}
	}
	return p
}

func acpxPackage() npmPackage {
	return npmPackage{name: "acpx", version: acpxVersion, file: "acpx/dist/cli.js"}
}

func lastLine(out []byte) string {
	out = bytes.TrimSpace(out)
	return string(out[bytes.LastIndexByte(out, '\n')+1:])
}
