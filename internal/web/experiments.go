package web

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/worlds/trend"
	"github.com/dalsegno/segno/world"
)

// experiment is the state of one experiment in the directory of the runs.
type experiment struct {
	Name               string           `json:"name"`
	State              generation.State `json:"state"`
	Generation         int              `json:"generation"`
	Generations        int              `json:"generations"`
	Ticks              int              `json:"ticks"` // ticks of the generation up to the newest checkpoint
	SimSeconds         float64          `json:"sim_seconds"`
	Agents             []string         `json:"agents"`
	Checkpoints        int              `json:"checkpoints"`         // since the runner started
	CheckpointFailures int              `json:"checkpoint_failures"` // since the runner started
	FilesOmitted       []string         `json:"files_omitted"`       // missing in the newest archive because of secrets
	WhyNot             string           `json:"why_not_reproducible"`
	Error              string           `json:"error"` // why it failed
	Updated            time.Time        `json:"updated,omitzero"`
	Damage             string           `json:"damage"` // why its state cannot be read, or ""
}

type experimentList struct {
	Dir         string       `json:"dir"` // the directory of the runs
	Experiments []experiment `json:"experiments"`
	Next        string       `json:"next"` // the cursor of the next window, "" at the end
}

func (s *Server) listExperiments(ctx context.Context, p *listParams) (experimentList, error) {
	list := experimentList{Dir: s.Runs, Experiments: []experiment{}}
	names, err := s.experimentNames()
	if err != nil {
		return list, err
	}
	if p.Cursor > len(names) {
		return list, invalidParameter("cursor", "there are "+itoa(len(names))+" experiments")
	}
	names = names[p.Cursor:]
	if len(names) > p.Limit {
		names, list.Next = names[:p.Limit], strconv.Itoa(p.Cursor+p.Limit)
	}
	for _, name := range names {
		list.Experiments = append(list.Experiments, s.experiment(ctx, name))
	}
	return list, nil
}

// experimentNames returns the names of the experiments, in their order.
func (s *Server) experimentNames() ([]string, error) {
	if s.Runs == "" {
		return nil, nil
	}
	return generation.Experiments(s.Runs)
}

// experiment returns the state of one experiment. If it is damaged, Damage has the reason.
func (s *Server) experiment(ctx context.Context, name string) experiment {
	status, _, err := generation.ReadStatus(ctx, s.Runs, name)
	e := experiment{Name: name, State: status.State, Generation: status.Generation, Generations: status.Generations, Ticks: status.Ticks,
		SimSeconds: time.Duration(status.SimTime).Seconds(), Agents: cutNames(status.Agents), Checkpoints: status.Checkpoints,
		CheckpointFailures: status.CheckpointFailures, FilesOmitted: cutNames(status.FilesOmitted), WhyNot: history.Cut(status.WhyNot, maxTitle),
		Error: history.Cut(status.Error, maxTitle), Updated: status.Updated}
	if err != nil {
		e.State, e.Damage = "", err.Error()
	}
	return e
}

// maxNames is the number of agents, files or outcomes of an experiment in a response.
const maxNames = 100

// cutNames returns the beginning of a list. It is never nil.
func cutNames(names []string) []string {
	out := []string{}
	for _, name := range names[:min(len(names), maxNames)] {
		out = append(out, history.Cut(name, maxTitle))
	}
	return out
}

// chain is an experiment with a window of its attempts.
type chain struct {
	experiment
	Outcomes []string  `json:"outcomes"` // the names of the outcomes of all attempts
	Attempts []attempt `json:"attempts"` // by generation, then by time, newest first
	Total    int       `json:"total"`    // attempts
	Next     string    `json:"next"`     // the cursor of the next window, "" at the end
}

type attempt struct {
	Generation  int                  `json:"generation"`
	Run         string               `json:"run_id"`
	Status      generation.RowStatus `json:"status"`
	Start       time.Time            `json:"start_utc"`
	End         time.Time            `json:"end_utc"`
	Seconds     float64              `json:"duration_seconds"`
	Ticks       int                  `json:"ticks"`
	SimSeconds  float64              `json:"sim_seconds"`
	Checkpoints int                  `json:"checkpoints"`
	WhyNot      string               `json:"why_not_reproducible"`
	Outcomes    world.Outcomes       `json:"outcomes"`
	Agents      []attemptAgent       `json:"agents"`
	// Archives are the newest archives that still exist, newest first.
	Archives []attemptArchive `json:"archives"`
}

type attemptAgent struct {
	Name         string `json:"name"`
	TemplateIn   string `json:"template_in"`
	WorkspaceOut string `json:"workspace_out"`
	TokensIn     *int64 `json:"tokens_in,omitempty"` // absent if unknown
	TokensOut    *int64 `json:"tokens_out,omitempty"`
	// Thread and Checkpoint are from the newest archive, or "" if the store lacks them.
	Thread     segno.ThreadID `json:"thread"`
	Checkpoint segno.CommitID `json:"checkpoint"`
}

type attemptArchive struct {
	File            string `json:"file"` // its name, for the archive route
	Path            string `json:"path"` // relative to the directory of the runs
	Digest          string `json:"state_digest"`
	Ticks           int    `json:"ticks"`
	SessionsOmitted int    `json:"sessions_omitted"` // because of secrets
	FilesOmitted    int    `json:"files_omitted"`    // because of secrets
	Base            string `json:"base"`             // the file that a delta needs beside it, or ""
	Error           string `json:"error"`            // why it cannot be read
}

type experimentParams struct {
	Name string `path:"name"`
}

type chainParams struct {
	Name   string `path:"name"`
	Limit  int    `query:"limit" default:"50" min:"1" max:"200"`
	Cursor int    `query:"cursor" default:"0"`
}

// maxArchives is the number of archives of an attempt in a response.
const maxArchives = 3

// checkExperiment returns an error if the directory of the runs has no experiment of a name.
func (s *Server) checkExperiment(name string) error {
	names, err := s.experimentNames()
	if err == nil && !slices.Contains(names, name) {
		err = segno.NewError(segno.KindNotFound, "find experiment", name, nil)
	}
	return err
}

func (s *Server) rows(name string) ([]generation.Row, error) {
	if err := s.checkExperiment(name); err != nil {
		return nil, err
	}
	return generation.ReadRows(s.Runs, name)
}

func (s *Server) getChain(ctx context.Context, p *chainParams) (chain, error) {
	c := chain{Attempts: []attempt{}}
	release, err := s.acquireHeavy(ctx) // the whole file will be in memory
	if err != nil {
		return c, err
	}
	defer release()
	rows, err := s.rows(p.Name)
	if err != nil {
		return c, err
	}
	c.experiment = s.experiment(ctx, p.Name)
	var outcomes []string
	for _, panel := range trend.NewPlot(p.Name, rows).Panels {
		outcomes = append(outcomes, panel.Name)
	}
	c.Outcomes = cutNames(outcomes)
	all := attemptsOf(rows)
	if c.Total = len(all); p.Cursor > c.Total {
		return c, invalidParameter("cursor", "there are "+itoa(c.Total)+" attempts")
	}
	all = all[p.Cursor:]
	if len(all) > p.Limit {
		all, c.Next = all[:p.Limit], strconv.Itoa(p.Cursor+p.Limit)
	}
	for _, a := range all {
		if err := s.addArchives(ctx, p.Name, &a); err != nil {
			return c, err
		}
		c.Attempts = append(c.Attempts, a)
	}
	return c, nil
}

// attemptsOf groups rows by attempt.
func attemptsOf(rows []generation.Row) (all []attempt) {
	at := map[string]int{}
	for _, r := range rows {
		i, known := at[r.Run]
		if !known {
			i = len(all)
			at[r.Run] = i
			all = append(all, attempt{Generation: r.Generation, Run: r.Run, Status: r.Status, Start: r.Start, End: r.End, Seconds: r.Seconds,
				Ticks: r.Ticks, SimSeconds: time.Duration(r.SimTime).Seconds(), Checkpoints: r.Checkpoints, WhyNot: history.Cut(r.WhyNot, maxTitle),
				Outcomes: r.Outcomes, Agents: []attemptAgent{}, Archives: []attemptArchive{}})
			if r.Outcomes == nil {
				all[i].Outcomes = world.Outcomes{}
			}
		}
		if len(all[i].Agents) < maxNames {
			all[i].Agents = append(all[i].Agents, attemptAgent{Name: history.Cut(r.Agent, maxTitle), TemplateIn: history.Cut(r.TemplateIn, maxTitle),
				WorkspaceOut: history.Cut(r.WorkspaceOut, maxTitle), TokensIn: r.TokensIn, TokensOut: r.TokensOut})
		}
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b attempt) int { return b.Generation - a.Generation })
	return all
}

// addArchives adds the newest archives of an attempt, and the threads in which the store has the files of its
// agents.
func (s *Server) addArchives(ctx context.Context, name string, a *attempt) error {
	paths := generation.AttemptArchives(s.Runs, name, a.Run)
	for _, path := range slices.Backward(paths[max(0, len(paths)-maxArchives):]) {
		saved := generation.ReadArchive(path)
		a.Archives = append(a.Archives, attemptArchive{File: filepath.Base(path), Path: saved.Path, Digest: saved.Digest, Ticks: saved.ElapsedTicks,
			SessionsOmitted: saved.Omitted, FilesOmitted: saved.OmittedFiles, Base: saved.Base, Error: saved.Error})
		for i := range a.Agents {
			if err := s.addThread(ctx, &a.Agents[i], saved.Workspaces[a.Agents[i].Name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// addThread adds the thread of an agent, unless it has one or the store lacks the checkpoint.
func (s *Server) addThread(ctx context.Context, a *attemptAgent, at segno.CommitID) error {
	if a.Thread != "" || at == "" {
		return nil
	}
	line, err := s.Store.Load(ctx, at, segno.Window{Last: 1})
	switch kind := segno.KindOf(err); {
	case err != nil && (kind == segno.KindNotFound || kind == segno.KindInvalid):
		return nil
	case err != nil:
		return err
	}
	a.Thread, a.Checkpoint = line.Commits[len(line.Commits)-1].Thread, at
	return nil
}

// getPlot writes the outcomes of an experiment as an image.
func (s *Server) getPlot(w http.ResponseWriter, r *http.Request, p *experimentParams) error {
	release, err := s.acquireHeavy(r.Context()) // held until the response is written, because the image is in memory
	if err != nil {
		return err
	}
	defer release()
	rows, err := s.rows(p.Name)
	if err != nil {
		return err
	}
	image := trend.NewPlot(p.Name, rows).SVG()
	w.Header().Set("Content-Type", "image/svg+xml")
	if matchesETag(w, r, shortHash(image)) {
		return nil
	}
	return writeBytes(w, r, http.StatusOK, image)
}

type archiveParams struct {
	Name string `path:"name"`
	Run  string `query:"run_id" max:"1024" required:"true"`
	File string `query:"file" max:"1024" required:"true"`
}

// getArchive writes an archive of an attempt.
func (s *Server) getArchive(w http.ResponseWriter, r *http.Request, p *archiveParams) error {
	if err := s.checkExperiment(p.Name); err != nil {
		return err
	}
	paths := generation.AttemptArchives(s.Runs, p.Name, p.Run)
	i := slices.IndexFunc(paths, func(path string) bool { return filepath.Base(path) == p.File })
	if i < 0 {
		return segno.NewError(segno.KindNotFound, "find archive", p.File, nil)
	}
	f, err := os.OpenFile(paths[i], os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // an agent may have replaced it
	if err != nil {
		return segno.NewError(segno.KindIO, "read archive", paths[i], err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return segno.Errorf(segno.KindCorrupt, "read archive", paths[i], "it is not a plain file")
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+p.File+`"`) // an archive's name needs no escaping
	http.ServeContent(w, r, "", info.ModTime(), f)
	return nil
}
