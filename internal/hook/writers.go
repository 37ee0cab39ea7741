package hook

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/dalsegno/segno/agents/claude"
	"github.com/dalsegno/segno/internal/proc"
)

// writers returns the process of the agent that runs the hook, and other processes that have the
// session open. own is 0 if the agent's registry has no process for the session.
func (h *handler) writers(ctx context.Context) (own int, others []int) {
	pids := h.Place.ClaudeTranscripts().Writers(ctx, h.Session)
	if len(pids) == 0 {
		return 0, nil
	}
	own = pids[0]
	for pid := range proc.Ancestors(h.PID) {
		if slices.Contains(pids, pid) {
			own = pid
			break
		}
	}
	return own, slices.DeleteFunc(pids, func(pid int) bool { return pid == own })
}

// showWriters warns the user of another process that has the session open, once for each pair of processes. Claude Code
// does not lock a session. A turn that one process writes is missing in the conversation of the other process, and the
// next process that resumes the session loses one of the two turns. Codex locks its sessions.
func (h *handler) showWriters(ctx context.Context) {
	if h.agent.Name != claude.Name {
		return
	}
	own, others := h.writers(ctx)
	for _, pid := range others {
		pair := []int{own, pid}
		slices.Sort(pair)
		occasion := []string{"writers"}
		for _, p := range pair {
			occasion = append(occasion, strconv.Itoa(p), proc.Start(p))
		}
		if h.Place.Spool().FirstTime(h.Session, occasion...) {
			h.answer.showLine(fmt.Sprintf("segno: process %d has this session open, too, and each of the two loses the turns of the other; end one of them, then 'segno sessions heal %s --join' puts the turns into one conversation", pid, clip(string(h.Session))))
		}
	}
}
