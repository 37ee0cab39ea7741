package historycmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
)

func (a *app) storeVerb() *cobra.Command {
	return cli.Noun("store", "seal the store with a key, or remove the seal", "", a.storeSeal(), a.storeUnseal())
}

func (a *app) storeSeal() *cobra.Command {
	var o local.SealOptions
	c := &cobra.Command{
		Use: "seal --key FILE", Short: "encrypt the store with a key file", Args: cobra.NoArgs,
		Long: `Encrypts the store: conversations, files, and the small files beside the database. The
result lists what is not covered. FILE is an identity file of age, as age-keygen writes
it, or a private ed25519 key of SSH without a passphrase. The store records the path of
the file. Every verb, hook and proxy then opens the store without asking as long as the
file can be read. SEGNO_IDENTITY names another copy of the file.

Without the key file nobody can read the store. Keep a copy of it elsewhere, or give a
further public key with --recipient.

The sealed copy is read back before it replaces the plain one, which is deleted then. The
disk may still have its blocks: only the disk itself can remove them. If there is no store
yet, the command creates one, and nothing is ever written in plain. If the command is
killed, the next one completes or undoes it. It refuses while a turn is open, or while
another process has the store open. See docs/sealing.md.`,
		Example: "  age-keygen -o ~/.config/segno-key.txt\n  segno store seal --key ~/.config/segno-key.txt",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runSeal(c.Context(), o) },
	}
	c.Flags().StringVar(&o.KeyFile, "key", "", "the `FILE` with the secret key")
	c.Flags().StringArrayVar(&o.Recipients, "recipient", nil, "a further public `KEY` that can open the store; can be repeated")
	return c
}

func (a *app) storeUnseal() *cobra.Command {
	return &cobra.Command{
		Use: "unseal", Short: "decrypt the store", Args: cobra.NoArgs,
		Long: `Removes the seal from the store. It needs the key file once more, and then the store is
readable to every program of this user. It works in the same steps as 'segno store seal'.`,
		Example: "  segno store unseal",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runUnseal(c.Context()) },
	}
}

// sealResult is the result of store seal and store unseal.
type sealResult struct {
	Store      string        `json:"store"`
	Sealed     *local.Sealed `json:"sealed"` // null after unseal
	Threads    int           `json:"threads"`
	Commits    int           `json:"commits"`
	Objects    int           `json:"objects"`
	Bytes      int64         `json:"bytes"` // size of the objects
	NotCovered []string      `json:"not_covered,omitempty"`

	StoreBytes []byte `json:"store_bytes,omitempty"`
}

func newSealResult(p local.Place, c local.Conversion) sealResult {
	return sealResult{Store: p.Store, StoreBytes: segno.PathBytes(p.Store), Threads: c.Threads, Commits: c.Commits, Objects: c.Objects,
		Bytes: c.Bytes, NotCovered: c.NotCovered}
}

// counts formats the numbers of objects and bytes that a conversion copied.
func (r *sealResult) counts() string {
	return cli.Plural(r.Threads, "thread") + ", " + cli.Plural(r.Commits, "commit") + ", " + cli.Plural(r.Objects, "object") + " (" + cli.Size(r.Bytes) + ")"
}

func (a *app) runSeal(ctx context.Context, o local.SealOptions) error {
	if o.KeyFile == "" {
		return cli.Usage(errors.New("--key FILE is missing"))
	}
	place, dir, err := a.PlaceAndDir()
	if err != nil {
		return err
	}
	o.KeyFile = cli.Absolute(dir, o.KeyFile)
	o.Progress = a.Transfer("sealing")
	done, err := place.SealStore(ctx, o)
	if err != nil {
		return err
	}
	res := newSealResult(place, done)
	if res.Sealed, err = place.Sealed(); err != nil {
		return err
	}
	if res.Sealed != nil && res.Sealed.Exposed {
		a.Notef("warning: other users can read %s; run 'chmod 600' on it", cli.QuotePath(o.KeyFile))
	}
	return a.Print(res, func(p *cli.Printer) {
		p.Linef("sealed %s: %s", cli.QuotePath(res.Store), res.counts())
		p.Linef("the key is in %s; without it the store cannot be read, so keep a copy", cli.QuotePath(o.KeyFile))
		p.Linef("the plain files are deleted; the disk may still have their blocks")
		for _, name := range res.NotCovered {
			p.Linef("not covered: %s%s", cli.QuotePath(name), notCoveredReason(name))
		}
	})
}

// notCoveredReason describes a file or directory that a seal does not cover.
func notCoveredReason(name string) string {
	switch name {
	case "hook.log", "hook.log.old":
		return " (errors of hooks, which name paths)"
	case "archives":
		return " (digests of archives, and hashes of contents without secrets)"
	case "backup":
		return " (the agent's settings from before segno was enabled)"
	case "trusted":
		return " (paths of directories of other users)"
	case "forks":
		return " (paths of forks that are not complete)"
	case "hints":
		return " (which hints were shown)"
	case "demo-agent":
		return " (sessions of 'segno demo')"
	}
	return ""
}

func (a *app) runUnseal(ctx context.Context) error {
	place, err := a.OpenPlace()
	if err != nil {
		return err
	}
	done, err := place.UnsealStore(ctx, a.Transfer("unsealing"))
	if err != nil {
		return err
	}
	res := newSealResult(place, done)
	res.NotCovered = nil
	return a.Print(res, func(p *cli.Printer) { p.Linef("unsealed %s: %s", cli.QuotePath(res.Store), res.counts()) })
}
