package hook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/timeline"
)

// noteLeft records which processes the commands of a turn left behind, and shows them to the user: segno cannot see what they change after the
// turn. The agent does not know them, in contrast to its background tasks, because the commands detached them.
func (h *handler) noteLeft(ctx context.Context, t timeline.OpenTurn) {
	agent := h.agentPID(ctx)
	if h.agent.SessionEnv == "" || agent == 0 || t.Start.IsZero() {
		return
	}
	entries, _, err := h.spool.Entries(ctx, t.Key)
	isCommand := func(e segno.Entry) bool { return e.Kind == segno.EntryIntent && agents.IsShell(e.Name) }
	if err != nil || !slices.ContainsFunc(entries, isCommand) {
		return
	}
	left := h.leftBehind(agent, h.Place.Now().Sub(t.Start)+time.Second)
	if len(left) == 0 {
		return
	}
	more := ""
	if n := len(left) - maxPaths; n > 0 {
		left, more = left[:maxPaths], fmt.Sprintf(" and %d more", n)
	}
	text := "commands left processes running: " + strings.Join(left, ", ") + more + "; what they change now counts as changed outside turns"
	if err := h.notes.RecordText(ctx, h.Payload, text); err != nil {
		h.log.Append("record the processes that a turn left behind", h.Session, err)
		return
	}
	h.answer.showLine("segno: " + text)
}

// leftBehind returns the names of processes that commands of the session started within a time before now, and that are not below the agent
// any more. It leaves out the processes below these, and below those that an earlier turn left behind.
func (h *handler) leftBehind(agent int, within time.Duration) (names []string) {
	detached := map[int]bool{}
	for pid := range proc.WithVariable(h.agent.SessionEnv, string(h.Session)) {
		if !slices.Contains(above(pid), agent) {
			detached[pid] = true
		}
	}
	for pid := range detached {
		isBelow := slices.ContainsFunc(above(pid), func(parent int) bool { return detached[parent] })
		if age := proc.Age(pid); age > 0 && age <= within && !isBelow {
			names = append(names, fmt.Sprintf("%s (pid %d)", clip(proc.Command(pid)), pid))
		}
	}
	slices.Sort(names)
	return names
}

// above returns the parent of a process, the parent's parent and so on.
func above(pid int) (parents []int) {
	const most = 64
	for pid = proc.Parent(pid); pid > 1 && len(parents) < most; pid = proc.Parent(pid) {
		parents = append(parents, pid)
	}
	return parents
}
