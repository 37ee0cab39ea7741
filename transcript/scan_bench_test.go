package transcript

import (
	"strings"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	code := strings.Repeat(`\tif err := run(ctx, \"x\"); err != nil {\n\t\treturn fmt.Errorf(\"run: %w\", err)\n\t}\n`, 40)
	line := []byte(`{"parentUuid":"aaaaaaaa-aaaa-4bbb-8ccc-000000000001","isSidechain":false,"message":{"role":"user","content":"` + code +
		strings.Repeat("All of it is done now, as you asked. ", 80) + `"},"type":"user","uuid":"aaaaaaaa-aaaa-4bbb-8ccc-000000000002","sessionId":"x"}` + "\n")
	var s scanner
	var r record
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if err := s.parse(line, &r); err != nil {
			b.Fatal(err)
		}
	}
}
