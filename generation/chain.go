package generation

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// chainFile has one row for each agent of each complete generation.
const chainFile = "generation_chain.csv"

// Row is one row of generation_chain.csv. Paths are relative to the directory of the runs.
type Row struct {
	Generation   int           `json:"generation"`
	AgentIndex   int           `json:"agent_index"`
	Agent        string        `json:"agent_name"`
	Run          string        `json:"run_id"`
	TemplateIn   string        `json:"template_in"`
	WorkspaceOut string        `json:"workspace_out"`
	Start        time.Time     `json:"start_utc"`
	End          time.Time     `json:"end_utc"`
	Duration     time.Duration `json:"-"` // between them
}

func chainHeader() []string {
	return []string{"generation", "agent_index", "agent_name", "run_id", "tmux_session", "template_in", "workspace_out", "start_utc", "end_utc", "duration_seconds"}
}

const stampFormat = "2006-01-02T15:04:05.000Z"

func (r Row) record() []string {
	return []string{strconv.Itoa(r.Generation), strconv.Itoa(r.AgentIndex), r.Agent, r.Run, "", r.TemplateIn, r.WorkspaceOut,
		r.Start.Format(stampFormat), r.End.Format(stampFormat), fmt.Sprintf("%.3f", r.Duration.Seconds())}
}

func parseRow(record []string) (r Row, err error) {
	r.Agent, r.Run, r.TemplateIn, r.WorkspaceOut = record[2], record[3], record[5], record[6]
	numbers := []error{nil, nil, nil, nil, nil}
	var seconds float64
	r.Generation, numbers[0] = strconv.Atoi(record[0])
	r.AgentIndex, numbers[1] = strconv.Atoi(record[1])
	r.Start, numbers[2] = time.Parse(stampFormat, record[7])
	r.End, numbers[3] = time.Parse(stampFormat, record[8])
	seconds, numbers[4] = strconv.ParseFloat(record[9], 64)
	r.Duration = time.Duration(seconds * float64(time.Second))
	return r, errors.Join(numbers...)
}

// readChain returns the rows of an experiment, none if there is no file.
func readChain(dir string) ([]Row, error) {
	name := filepath.Join(dir, chainFile)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "read chain", name, err)
	}
	records, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err == nil && (len(records) == 0 || !slices.Equal(records[0], chainHeader())) {
		err = errors.New("the header is not that of a chain")
	}
	var rows []Row
	for i := 1; err == nil && i < len(records); i++ {
		var r Row
		if r, err = parseRow(records[i]); err == nil {
			rows = append(rows, r)
		}
	}
	if err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read chain", name, err).WithHint("repair the file, or use another directory with --out")
	}
	return rows, nil
}

// appendChain adds the rows of one generation. Either all of them are durable or none. They replace
// rows since a time, which an earlier try of this runner wrote and could not make durable.
func appendChain(fsys vfs.FS, dir string, more []Row, since time.Time) error {
	rows, err := readChain(dir)
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Generation == more[0].Generation && !r.Start.Before(since) })
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(chainHeader()) // a write to a buffer does not fail
	for _, r := range append(rows, more...) {
		_ = w.Write(r.record())
	}
	w.Flush()
	return vfs.Replace(fsys, filepath.Join(dir, chainFile), b.Bytes(), 0o644)
}

// newestRows returns the newest rows of a generation, by the index of the agent. They are nil if the
// generation is not complete.
func newestRows(rows []Row, generation, agents int) []Row {
	out, found := make([]Row, agents), 0
	for _, r := range slices.Backward(rows) {
		if r.Generation == generation && r.AgentIndex >= 0 && r.AgentIndex < agents && out[r.AgentIndex].Run == "" {
			out[r.AgentIndex] = r
			found++
		}
	}
	if found < agents {
		return nil
	}
	return out
}
