package agentrig

import (
	"bytes"
	"context"
	"runtime"
)

// installNode returns the path of node. It installs the package of the platform, because
// the one named node only downloads that package.
func installNode(ctx context.Context) (string, error) {
	name := "node-" + platform()
	if runtime.GOOS == "darwin" && runtime.GOARCH == "arm64" {
		name = "node-bin-" + platform()
	}
	return npmPackage{name: name, version: nodeVersion, file: name + "/bin/node", before: pinnedOn}.install(ctx)
}

func acpxPackage() npmPackage {
	return npmPackage{name: "acpx", version: acpxVersion, file: "acpx/dist/cli.js", before: pinnedOn}
}

func lastLine(out []byte) string {
	out = bytes.TrimSpace(out)
	return string(out[bytes.LastIndexByte(out, '\n')+1:])
}
