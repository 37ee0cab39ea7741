package e2erig

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
)

// ChildrenOf returns the ids of a process's children.
func ChildrenOf(t *testing.T, parent int) []int {
	t.Helper()
	return agentrig.SystemProcesses(t, func(p agentrig.SystemProcess) bool { return p.Parent == parent })
}
