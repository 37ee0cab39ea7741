package cli

import (
	"fmt"
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
			return a.print(v, func(p *printer) { p.linef("%s", versionLine()) })
		},
	}
}

// versionLine is what 'segno version' and 'segno --version' print.
func versionLine() string {
	return fmt.Sprintf("segno %s %s/%s %s", release, runtime.GOOS, runtime.GOARCH, runtime.Version())
}
