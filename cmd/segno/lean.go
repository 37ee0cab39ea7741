//go:build lean

package main

import (
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/historycmd"
	"github.com/dalsegno/segno/internal/hook/hookcmd"
	"github.com/dalsegno/segno/internal/web/webcmd"
)

// wings returns the smallest useful set: undo, hooks and the page.
func wings() []cli.Wing {
	return []cli.Wing{
		historycmd.Wing(),
		hookcmd.Wing(),
		webcmd.Wing(),
	}
}
