package claude

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// Live returns the process that has a session open, from the agent's registry of
// running processes. alive is false if there is none, or if the registered process is gone
// and another process has its number.
func (c *Transcripts) Live(ctx context.Context, session segno.SessionID) (pid int, alive bool) {
	names, err := filepath.Glob(filepath.Join(c.home, "sessions", "*.json"))
	if err != nil || session == "" {
		return 0, false
	}
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		var entry struct {
			PID       int             `json:"pid"`
			Session   segno.SessionID `json:"sessionId"`
			ProcStart string          `json:"procStart"`
		}
		if json.Unmarshal(readStart(name), &entry) != nil || entry.Session != session {
			continue
		}
		start, ok := processStart(entry.PID)
		if ok && (entry.ProcStart == "" || entry.ProcStart == start) {
			return entry.PID, true
		}
		pid = entry.PID
	}
	return pid, false
}

// readStart reads the first 64 KiB of a file. It returns nil if it cannot.
func readStart(name string) []byte {
	f, err := openRegular(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	return data
}

// processStart returns the start time of a process in the kernel's clock ticks; false if
// there is no such process.
func processStart(pid int) (string, bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", false
	}
	stat := string(data)
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // the name before it may contain anything
	const start = 19
	if len(fields) <= start || fields[0] == "Z" {
		return "", false
	}
	return fields[start], true
}
