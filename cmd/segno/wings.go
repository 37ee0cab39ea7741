//go:build !lean

package main

import (
	"github.com/dalsegno/segno/fleet/fleetcmd"
	"github.com/dalsegno/segno/insight/insightcmd"
	"github.com/dalsegno/segno/internal/chat/chatcmd"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/historycmd"
	"github.com/dalsegno/segno/internal/hook/hookcmd"
	"github.com/dalsegno/segno/internal/pack/packcmd"
	"github.com/dalsegno/segno/internal/proxy/proxycmd"
	"github.com/dalsegno/segno/internal/sessions"
	"github.com/dalsegno/segno/internal/web/webcmd"
	"github.com/dalsegno/segno/internal/worlds/worldscmd"
	"github.com/dalsegno/segno/search/searchcmd"
)

// wings returns the products that the command consists of, one line each. Without a line, the command lacks the verbs of that product.
func wings() []cli.Wing {
	return []cli.Wing{
		historycmd.Wing(),
		searchcmd.Wing(),
		insightcmd.Wing(),
		hookcmd.Wing(),
		proxycmd.Wing(),
		sessions.Wing(),
		packcmd.Wing(),
		chatcmd.Wing(models()),
		webcmd.Wing(),
		fleetcmd.Wing(models()),
		worldscmd.Wing(models()),
	}
}
