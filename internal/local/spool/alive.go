package spool

import (
	"os"
	"time"

	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/timeline"
)

// unseenTime is how long a turn counts as under way after its last event if segno cannot see its process. It is longer than
// the calls of tools that agents allow, during which there is no event.
const unseenTime = time.Hour

// TurnProcess returns the process pid as that of an open turn.
func TurnProcess(pid int) timeline.Process {
	return timeline.Process{PID: pid, PIDStart: proc.Start(pid), Machine: proc.Machine()}
}

// Alive returns a function that reports whether the process of an open turn is known and still runs. From a container, the
// processes outside of it cannot be seen, nor those of other containers; such a turn counts as under way until it has had no
// event for an hour.
func (d *Dir) Alive(now func() time.Time) func(timeline.OpenTurn) bool {
	return func(t timeline.OpenTurn) bool {
		if t.PID == 0 {
			return false
		}
		alive, isSeen := proc.AliveOn(t.Machine, t.PID, t.PIDStart)
		if isSeen {
			return alive
		}
		info, err := os.Stat(d.turnFile(t.Key)) // each event appends to the file
		return err == nil && now().Sub(info.ModTime()) < unseenTime
	}
}
