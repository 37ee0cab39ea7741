package transcript

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
// running processes. alive is false if there is none, or if the one that is
// registered is gone and its number taken by another.
func (c *Claude) Live(ctx context.Context, session segno.SessionID) (pid int, alive bool) {
	names, err := filepath.Glob(filepath.Join(c.home, "sessions", "*.json"))
	if err != nil {
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
		if json.Unmarshal(readSome(name), &entry) != nil || entry.Session != session || session == "" {
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

// readSome reads the beginning of a small file, nothing if it cannot.
func readSome(name string) []byte {
	f, err := openRegular(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	return data
}

// processStart returns when a process started, as the kernel counts it; false if
// there is none.
func processStart(pid int) (string, bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", false
	}
	stat := string(data)
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // the name may hold anything
	const start = 19
	if len(fields) <= start || fields[0] == "Z" {
		return "", false
	}
	return fields[start], true
}
