package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version this source tree becomes.
const release = "0.1.0-dev"

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "the version of segno", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": release, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v["revision"] = s.Value
					}
				}
			}
			return a.print(v, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "segno %s %s %s\n", v["version"], v["platform"], v["go"])
				return err
			})
		},
	}
}
