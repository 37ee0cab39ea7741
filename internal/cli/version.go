package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// release is the version of a build without a tag.
const release = "0.1.0-dev"

// BuildVersion returns the version of a release, or the version that the Go build recorded.
func (a *App) BuildVersion() string {
	if a.Version != "" {
		return a.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return release
}

func (a *App) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "the version of segno", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": a.BuildVersion(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v["revision"] = s.Value
					}
				}
			}
			return a.Print(v, func(p *Printer) { p.Linef("%s", a.versionLine()) })
		},
	}
}

// versionLine is the output of 'segno version' and 'segno --version'.
func (a *App) versionLine() string {
	return fmt.Sprintf("segno %s %s/%s %s", a.BuildVersion(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}
