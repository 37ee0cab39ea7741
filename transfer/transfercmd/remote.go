package transfercmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/client"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/transfer"
)

// remoteFlags name the server on the other side.
type remoteFlags struct {
	address   string
	tokenFile string
}

func (f *remoteFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.address, "remote", "", "the `URL` of the server that 'segno serve' printed, without the token")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "a `FILE` with the token (default: $SEGNO_TOKEN)")
}

// remoteText describes --remote in the help of both verbs.
const remoteText = `--remote is the address of a server: 'segno serve --tokens FILE', behind a proxy with TLS if it
is on another machine. The token comes from $SEGNO_TOKEN or from --token-file; the arguments of a
process are visible to other users, so an address with a token is refused.`

// open returns the store behind the server.
func (f *remoteFlags) open(a *app) (*client.Store, error) {
	if f.address == "" {
		return nil, cli.Usage(errors.New("name the server with --remote URL"))
	}
	token, err := a.RemoteToken(f.address, f.tokenFile)
	if err != nil {
		return nil, err
	}
	return client.New(f.address, token)
}

// item is the result of a push or a pull.
type item struct {
	Thread   segno.ThreadID   `json:"thread"`
	Remote   string           `json:"remote"`
	Outcome  transfer.Outcome `json:"outcome"`
	Head     segno.CommitID   `json:"head"`   // of the thread in the store that received it
	Source   segno.CommitID   `json:"source"` // the head of the thread that was copied
	Commits  int              `json:"commits"`
	Objects  int              `json:"objects"`
	Bytes    *int64           `json:"bytes,omitempty"` // of the objects; absent if a dry run would have to fetch them
	Pins     int              `json:"pins"`
	Sessions int              `json:"sessions"`
	Parts    int              `json:"parts"`
	Left     segno.CommitID   `json:"left,omitempty"` // a head before, which is not on the line of the new one
	Why      string           `json:"why,omitempty"`  // why the head stayed
	DryRun   bool             `json:"dry_run,omitempty"`

	// Of a pull into a directory.
	Dir        string          `json:"dir,omitempty"`
	SessionDir string          `json:"session_dir,omitempty"`
	Session    segno.SessionID `json:"session,omitempty"`
	Command    []string        `json:"command,omitempty"`
	Chat       string          `json:"chat,omitempty"`    // why no session continues the conversation
	Restore    *moves.Result   `json:"restore,omitempty"` // of the files of a directory that was at the thread

	DirBytes        []byte `json:"dir_bytes,omitempty"`
	SessionDirBytes []byte `json:"session_dir_bytes,omitempty"`
}

func newItem(r *transfer.Result, address string, isDry bool) item {
	i := item{Thread: r.Thread, Remote: address, Outcome: r.Outcome, Head: r.Head, Source: r.Source, Left: r.Left, Commits: r.Commits, Objects: r.Objects,
		Pins: r.Pins, Sessions: r.Links, Parts: r.Parts, DryRun: isDry}
	if r.Bytes >= 0 {
		i.Bytes = &r.Bytes
	}
	if r.Why != nil {
		i.Why = r.Why.Error()
	}
	return i
}

// amount describes what was sent: "12 commits, 34 objects, 5.1 MB".
func (i *item) amount() string {
	text := cli.Plural(i.Commits, "commit") + ", " + cli.Plural(i.Objects, "object")
	if i.Bytes != nil {
		text += ", " + cli.Size(*i.Bytes)
	}
	return text
}

// isPartial reports whether the commits arrived, but the head stayed.
func (i *item) isPartial() bool { return i.Outcome == transfer.Diverged || i.Outcome == transfer.Kept }
