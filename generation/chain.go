package generation

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/world"
)

// chainFile has one row for each agent of each attempt that is over.
const chainFile = "generation_chain.csv"

// maxChain is how many bytes of a chain are read. They are enough for more than 100,000 rows.
const maxChain = 64 << 20

// RowStatus is how an attempt ended.
type RowStatus string

// The statuses of rows.
const (
	RowCompleted  RowStatus = "completed"  // the generation is complete; the next one begins with what the attempt left
	RowFailed     RowStatus = "failed"     // by an error, or because its runner was killed
	RowSuperseded RowStatus = "superseded" // the user stopped it and another attempt went on, or the user went back
)

// Row is one row of generation_chain.csv: one agent of one attempt to run a generation. The numbers about the world are
// the same in all rows of an attempt. Paths are relative to the directory of the runs.
type Row struct {
	Generation int       `json:"generation"`
	AgentIndex int       `json:"agent_index"`
	Agent      string    `json:"agent_name"`
	Run        string    `json:"run_id"` // of the attempt
	Status     RowStatus `json:"status"`
	// TemplateIn is where the workspace came from: the WorkspaceOut of an earlier attempt, "checkpoint:PATH", the path
	// of a template, or "" if it was empty.
	TemplateIn string `json:"template_in"`
	// WorkspaceOut is the workspace that the agent left. The path contains a symlink that follows the directory of the
	// attempt, so it never resolves to the files of another attempt.
	WorkspaceOut string    `json:"workspace_out"`
	Start        time.Time `json:"start_utc"`
	// End and the numbers below are those of the last checkpoint if the runner was killed.
	End     time.Time `json:"end_utc"`
	Seconds float64   `json:"duration_seconds"` // from Start to End
	// Ticks and SimTime count from the beginning of the generation, even if the attempt began with a checkpoint.
	Ticks       int           `json:"ticks"`
	SimTime     segno.SimTime `json:"sim_seconds"`
	Checkpoints int           `json:"checkpoints"` // of this attempt
	// TokensIn and TokensOut are the tokens that the agent's model read and wrote in this attempt; nil is unknown.
	TokensIn  *int64 `json:"tokens_in,omitempty"`
	TokensOut *int64 `json:"tokens_out,omitempty"`
	// WhyNot is why another run of the experiment may have another course; "" if it is reproducible.
	WhyNot   string         `json:"why_not_reproducible,omitempty"`
	Outcomes world.Outcomes `json:"outcomes,omitempty"` // of the world
}

// columns returns the columns that every chain has. Those for the outcomes of the world follow.
func columns() []string {
	return []string{"generation", "agent_index", "agent_name", "run_id", "status", "template_in", "workspace_out", "start_utc", "end_utc",
		"duration_seconds", "ticks", "sim_seconds", "checkpoints", "tokens_in", "tokens_out", "reproducible", "why_not_reproducible"}
}

const stampFormat = "2006-01-02T15:04:05.000Z"

const yes, no = "yes", "no"

// record returns the fields of the row, including those for the given outcomes.
func (r Row) record(outcomes []string) []string {
	count := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	reproducible := yes
	if r.WhyNot != "" {
		reproducible = no
	}
	fields := []string{strconv.Itoa(r.Generation), strconv.Itoa(r.AgentIndex), r.Agent, r.Run, string(r.Status), r.TemplateIn, r.WorkspaceOut,
		r.Start.Format(stampFormat), r.End.Format(stampFormat), strconv.FormatFloat(r.Seconds, 'f', 3, 64), strconv.Itoa(r.Ticks), r.SimTime.String(),
		strconv.Itoa(r.Checkpoints), count(r.TokensIn), count(r.TokensOut), reproducible, r.WhyNot}
	for _, name := range outcomes {
		value, has := r.Outcomes[name]
		if !has {
			fields = append(fields, "")
			continue
		}
		fields = append(fields, strconv.FormatFloat(value, 'g', -1, 64))
	}
	return fields
}

// fieldReader reads the fields of a record, and keeps the first error.
type fieldReader struct {
	record []string
	err    error
}

func (f *fieldReader) next() string {
	text := f.record[0]
	f.record = f.record[1:]
	return text
}

func readField[T any](f *fieldReader, parse func(string) (T, error)) T {
	v, err := parse(f.next())
	f.err = errors.Join(f.err, err)
	return v
}

func parseStamp(text string) (time.Time, error) { return time.Parse(stampFormat, text) }

func parseNumber(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

func parseSimTime(text string) (t segno.SimTime, err error) { return t, t.UnmarshalJSON([]byte(text)) }

func parseCount(text string) (*int64, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return &n, err
}

// parseRow reads a record whose last fields are the given outcomes.
func parseRow(record, outcomes []string) (r Row, err error) {
	f := &fieldReader{record: record}
	r.Generation, r.AgentIndex = readField(f, strconv.Atoi), readField(f, strconv.Atoi)
	r.Agent, r.Run, r.Status, r.TemplateIn, r.WorkspaceOut = f.next(), f.next(), RowStatus(f.next()), f.next(), f.next()
	r.Start, r.End, r.Seconds = readField(f, parseStamp), readField(f, parseStamp), readField(f, parseNumber)
	r.Ticks, r.SimTime, r.Checkpoints = readField(f, strconv.Atoi), readField(f, parseSimTime), readField(f, strconv.Atoi)
	r.TokensIn, r.TokensOut = readField(f, parseCount), readField(f, parseCount)
	reproducible := f.next()
	if r.WhyNot = f.next(); (reproducible == yes) != (r.WhyNot == "") {
		f.err = errors.Join(f.err, fmt.Errorf("reproducible is %q because of %q", reproducible, r.WhyNot))
	}
	for _, name := range outcomes {
		if f.record[0] == "" {
			f.next()
			continue
		}
		if r.Outcomes == nil {
			r.Outcomes = world.Outcomes{}
		}
		r.Outcomes[name] = readField(f, parseNumber)
	}
	return r, errors.Join(f.err, r.Outcomes.Check())
}

// readChain returns the rows of an experiment, oldest first, or none if there is no file.
func readChain(dir string) ([]Row, error) {
	name := filepath.Join(dir, chainFile)
	f, err := openFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var data []byte
	if err == nil {
		defer f.Close()
		data, err = io.ReadAll(io.LimitReader(f, maxChain+1))
	}
	if err == nil && len(data) > maxChain {
		err = fmt.Errorf("it has more than %d bytes", maxChain)
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "read chain", name, err)
	}
	rows, err := parseChain(data)
	if err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read chain", name, err).WithHint("repair the file, or use another directory with --out")
	}
	return rows, nil
}

func parseChain(data []byte) (rows []Row, err error) {
	records, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(records) > 0 && slices.Equal(records[0], firstHeader()) {
		return parseFirstChain(records[1:])
	}
	n := len(columns())
	if len(records) == 0 || len(records[0]) < n || !slices.Equal(records[0][:n], columns()) {
		return nil, errors.New("the header is not that of a chain")
	}
	for _, record := range records[1:] {
		r, err := parseRow(record, records[0][n:])
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// encodeChain returns the file with rows.
func encodeChain(rows []Row) []byte {
	names := map[string]bool{}
	for _, r := range rows {
		for name := range r.Outcomes {
			names[name] = true
		}
	}
	outcomes := slices.Sorted(maps.Keys(names))
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(append(columns(), outcomes...)) // a write to a buffer does not fail
	for _, r := range rows {
		_ = w.Write(r.record(outcomes))
	}
	w.Flush()
	return b.Bytes()
}

// writeChain replaces the file, unless it already has these rows. On an error the file is unchanged.
func writeChain(fsys vfs.FS, dir string, rows []Row) error {
	name, data := filepath.Join(dir, chainFile), encodeChain(rows)
	if now, err := os.ReadFile(name); err == nil && bytes.Equal(now, data) {
		return fsys.SyncDir(dir) // the runner that wrote it may have failed to make it durable
	}
	return vfs.Replace(fsys, name, data, 0o644)
}

// completedRows returns the rows of the newest attempt that completed a generation, or none.
func completedRows(rows []Row, generation int) (found []Row) {
	for _, r := range slices.Backward(rows) {
		if r.Generation == generation && r.Status == RowCompleted && (len(found) == 0 || r.Run == found[0].Run) {
			found = append(found, r)
		}
	}
	slices.Reverse(found)
	return found
}

// firstHeader is the header of the first form of the file, which had only rows of complete generations.
func firstHeader() []string {
	return []string{"generation", "agent_index", "agent_name", "run_id", "tmux_session", "template_in", "workspace_out", "start_utc", "end_utc", "duration_seconds"}
}

// parseFirstChain reads the rows of the first form. There, all attempts of a generation share the name of their run, so
// each one gets an id here. The newest attempt of a generation completed it. Later runs reuse the paths of earlier
// ones, so earlier rows lose their path.
func parseFirstChain(records [][]string) (rows []Row, err error) {
	attempts := map[string]int{} // the newest attempt by run
	for _, record := range records {
		f := &fieldReader{record: record}
		r := Row{Status: RowCompleted, WhyNot: "an earlier version of segno did not record whether it is"}
		r.Generation, r.AgentIndex = readField(f, strconv.Atoi), readField(f, strconv.Atoi)
		r.Agent, r.Run = f.next(), f.next()
		f.next() // tmux_session was empty
		r.TemplateIn, r.WorkspaceOut = f.next(), f.next()
		r.Start, r.End, r.Seconds = readField(f, parseStamp), readField(f, parseStamp), readField(f, parseNumber)
		if f.err != nil {
			return nil, f.err
		}
		if len(rows) == 0 || rows[len(rows)-1].Generation != r.Generation || !rows[len(rows)-1].Start.Equal(r.Start) {
			attempts[r.Run]++
			for i := range rows {
				if rows[i].Generation >= r.Generation {
					rows[i].Status, rows[i].WorkspaceOut = RowSuperseded, ""
				}
			}
		}
		r.Run = attemptID(r.Run, attempts[r.Run])
		rows = append(rows, r)
	}
	return rows, nil
}
