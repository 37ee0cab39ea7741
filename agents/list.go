package agents

import (
	"github.com/dalsegno/segno/agents/claude"
	"github.com/dalsegno/segno/agents/codex"
	"github.com/dalsegno/segno/agents/gemini"
	"github.com/dalsegno/segno/agents/opencode"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/agents/segno"
)

// list has the agents, in the order in which a user sees them. It does not change.
var list = []profile.Profile{
	claude.Profile(),
	codex.Profile(),
	gemini.Profile(),
	opencode.Profile(),
	segno.Profile(),
}
