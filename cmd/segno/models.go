//go:build !lean

package main

import (
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/anthropic"
	"github.com/dalsegno/segno/agent/model/openai"
	"github.com/dalsegno/segno/internal/chat"
)

// models returns the models that users can name, by provider.
func models() chat.Models { return chat.Models{"anthropic": newAnthropic, "openai": newOpenAI} }

func newAnthropic(model string, getenv func(string) string) (agent.Model, error) {
	key, base := getenv("ANTHROPIC_API_KEY"), getenv("ANTHROPIC_BASE_URL")
	if key == "" {
		return nil, noKey("anthropic/"+model, "ANTHROPIC_API_KEY")
	}
	return anthropic.New(model, anthropic.Options{Key: key, BaseURL: base}), nil
}

// newOpenAI returns a model. It requires no key if the user has set the address of another server.
func newOpenAI(model string, getenv func(string) string) (agent.Model, error) {
	key, base := getenv("OPENAI_API_KEY"), getenv("OPENAI_BASE_URL")
	if key == "" && base == "" {
		return nil, noKey("openai/"+model, "OPENAI_API_KEY")
	}
	return openai.New(model, openai.Options{Key: key, BaseURL: base}), nil
}

func noKey(model, name string) error {
	return segno.Errorf(segno.KindInvalid, "open model", model, "there is no key for it").WithHint("set " + name + ", or use --model offline")
}
