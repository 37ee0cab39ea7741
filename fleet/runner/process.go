package runner

import (
	"os"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proc"
)

// killTime limits how long processes may take to end after SIGKILL.
const killTime = 30 * time.Second

// endProcesses kills the processes that have a variable in their environment, and returns when they have ended. An agent leaves
// processes in sessions of their own, such as servers in the background. They would write in the directory in a later turn.
func endProcesses(name, value string) error {
	for end := time.Now().Add(killTime); ; time.Sleep(time.Millisecond) {
		left := 0
		for pid := range proc.WithVariable(name, value) {
			if pid != os.Getpid() && syscall.Kill(pid, syscall.SIGKILL) == nil {
				left = pid
			}
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(end) {
			return segno.Errorf(segno.KindIO, "end agent", value, "its process %d does not end", left).WithHint("end the process")
		}
	}
}
