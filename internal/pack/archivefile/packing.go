package archivefile

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/cli/secretscan"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/pack"
)

// PackFlags are the flags of verbs that write an archive.
type PackFlags struct {
	Output                     string
	WorkspaceOnly, OmitSession bool
	Thread                     bool
	Compress, Since            string
	Encrypt, Allow             []string
	Sign                       string
}

// CompressFlag adds the flag for the compression of archives.
func CompressFlag(c *cobra.Command, compress *string) {
	c.Flags().StringVar(compress, "compress", CompressZstd, "how to compress conversations: zstd, or `deflate` for every zip program")
	cli.CompleteFlag(c, "compress", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{CompressZstd, CompressDeflate}, cobra.ShellCompDirectiveNoFileComp
	})
}

// The values of --compress.
const (
	CompressZstd    = "zstd"
	CompressDeflate = "deflate"
)

// CheckCompress checks the value of the flag that CompressFlag adds.
func CheckCompress(compress string) error {
	if compress != CompressZstd && compress != CompressDeflate {
		return cli.Usage(fmt.Errorf("--compress %q is neither zstd nor deflate", compress))
	}
	return nil
}

// Check checks the flags together. Its errors are those of the command line.
func (f *PackFlags) Check() error {
	if f.Output == "" {
		return cli.Usage(errors.New("pack needs -o FILE"))
	}
	if err := CheckCompress(f.Compress); err != nil {
		return err
	}
	if f.Thread && f.Since != "" {
		return cli.Usage(errors.New("--since is for a checkpoint, and --thread packs all of them"))
	}
	return secretscan.CheckAllowed(f.Allow)
}

// packed is the state that pack writes.
type packed struct {
	State      archive.State
	Cleanup    func() error // is never nil
	Name       string       // for messages
	Checkpoint segno.CommitID
	Thread     segno.ThreadID // set for an archive of a whole thread
}

// Packed returns the state of the checkpoint or thread that the arguments name.
func Packed(a *cli.App, ctx context.Context, d *cli.Workspace, name string, flags PackFlags) (packed, error) {
	if !flags.Thread {
		return packedCheckpoint(a, ctx, d, cmp.Or(name, "@"), flags)
	}
	p := packed{Cleanup: func() error { return nil }}
	a.ThreadName = name
	var err error
	if p.Thread, err = a.ThreadID(ctx, d); err != nil {
		return p, err
	}
	p.Name = "thread " + cli.Short(p.Thread)
	p.State, p.Cleanup, err = Packer(d).ThreadState(ctx, p.Thread, flags.options())
	return p, err
}

func packedCheckpoint(a *cli.App, ctx context.Context, d *cli.Workspace, name string, flags PackFlags) (packed, error) {
	p := packed{Cleanup: func() error { return nil }}
	_, c, err := a.CheckpointNamed(ctx, d, name)
	if segno.KindOf(err) == segno.KindNotFound { // a whole id names a checkpoint of any thread
		if line, loadErr := d.Store.Load(ctx, segno.CommitID(name), segno.Window{Last: 1}); loadErr == nil && line.Commits[0].Checkpoint != nil {
			c, err = line.Commits[0].Checkpoint, nil
		}
	}
	if err != nil {
		return p, err
	}
	p.Name, p.Checkpoint = cli.Label(c), c.ID
	p.State, p.Cleanup, err = Packer(d).State(ctx, c.ID, flags.options())
	return p, err
}

func (f *PackFlags) options() pack.Options {
	return pack.Options{WorkspaceOnly: f.WorkspaceOnly, OmitSession: f.OmitSession}
}

// WriteOptions reads the keys that the flags name and the records of this installation.
func WriteOptions(a *cli.App, ctx context.Context, records local.Archives, flags PackFlags) (o archive.WriteOptions, err error) {
	if o.Recipients, err = recipients(a, flags.Encrypt); err != nil {
		return o, err
	}
	if flags.Sign != "" {
		if o.Sign, err = signer(a, ctx, flags.Sign); err != nil {
			return o, err
		}
	}
	if o.Scanner, o.Allow, err = secretscan.Open(a, records, flags.Allow); err != nil {
		return o, err
	}
	if o.Verdicts, err = records.Verdicts(o.Scanner.Digest()); err != nil {
		return o, err
	}
	o.Deflate = flags.Compress == CompressDeflate
	o.Record = func(digest string) error { return records.RecordWritten(ctx, digest) }
	return o, nil
}

// Packer returns the packer of the store that a workspace is in.
func Packer(d *cli.Workspace) *pack.Packer {
	place := d.Store.Place()
	return &pack.Packer{Store: d.Store.Store, FS: place.FS, Temp: place.Archives().Dir()}
}
