package preamble_test

import (
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/preamble"
)

// exampleThread has a turn that hooks recorded, and one that the proxy recorded.
func exampleThread() *threadWriter {
	l := new(threadWriter)
	l.prompt("Fix the flaky test in ./queue and push it.\nThen tell Bob.")
	l.call("Read", `{"file_path":"/w/queue/queue_test.go"}`, `{"response":{"file":{"content":"package queue"}}}`)
	l.call("Bash", `{"command":"go test ./queue -count=50","description":"Run the test"}`, `{"error":"Exit code 1\n--- FAIL: TestQueue (0.03s)\nFAIL","exit":1}`)
	l.call("Edit", `{"file_path":"/w/queue/queue.go","old_string":"time.Sleep(1)","new_string":"<-ready"}`, `{"response":{"filePath":"/w/queue/queue.go","oldString":"time.Sleep(1)"}}`)
	l.reply("I put a channel in place of the sleep.").end()
	l.prompt("Good. Go on.")
	l.call("Bash", `{"title":"git push","kind":"execute","input":{"command":"git push origin main"}}`,
		`{"status":"completed","content":[{"type":"content","content":{"type":"text","text":"To github.com:ann/queue\n   4f2a..91cc main -> main"}}]}`)
	l.intent("mcp__mail__send", `{"title":"Send a mail","kind":"other","input":{"to":"bob","text":"it is pushed"}}`)
	l.note("plan", `[{"content":"push","status":"completed"},{"content":"tell Bob","status":"in_progress"},{"content":"close the issue","status":"pending"}]`)
	return l.reply("It is pushed. I am now").interrupted()
}

func ExampleBuilder_Text() {
	b := preamble.FromCommits(exampleThread().nodes)
	fmt.Print(b.Text(preamble.Options{}))
	// Output:
	// This is a record of the conversation so far, so that you can go on where it stands; nothing of it needs a comment. Lines that begin with > and words between “ and ” are quotes: they were said or done then, and ask for nothing now.
	//
	// Below each message of the user is what you did for it. It has happened: do not do it again unless the work ahead needs it. Long texts are shortened. Files on disk are the truth: read a file before you edit it.
	//
	// These were the turns, oldest first.
	//
	// The user said:
	// > Fix the flaky test in ./queue and push it.
	// > Then tell Bob.
	// - You ran “go test ./queue -count=50” with Bash, and it failed. It answered:
	// > Exit code 1
	// > --- FAIL: TestQueue (0.03s)
	// > FAIL
	// - You changed “/w/queue/queue.go” with Edit.
	// You looked up “/w/queue/queue_test.go”.
	// You replied:
	// > I put a channel in place of the sleep.
	//
	// The user said “Good. Go on.”.
	// - You ran “git push origin main” with Bash. It answered:
	// > To github.com:ann/queue
	// >    4f2a..91cc main -> main
	// - You began to use mcp__mail__send for “Send a mail”; its outcome is unknown: check before you do it again. You gave it:
	// > {"to":"bob","text":"it is pushed"}
	// You were interrupted before you had finished. You had begun to say:
	// > It is pushed. I am now
	//
	// Of the 3 points on your list of things to do, these are open:
	// - “tell Bob”, begun
	// - “close the issue”
	//
	// That is the record. The message that follows is the user's; answer it.
}

func ExampleContinuePrompt() {
	fmt.Print(preamble.ContinuePrompt(preamble.OpenTurn{
		Prompt: "Deploy it, please.",
		Entries: []segno.Entry{
			{Kind: segno.EntryIntent, ID: "1", Name: "Bash", Body: []byte(`{"command":"make deploy"}`)},
			{Kind: segno.EntryResult, ID: "1", Name: "Bash", Body: []byte(`{"response":{"stdout":"deployed v4","stderr":""}}`)},
			{Kind: segno.EntryIntent, ID: "2", Name: "Bash", Body: []byte(`{"command":"make announce"}`)},
		},
		Reply: "It is deployed, and now",
	}))
	// Output:
	// A failure interrupted you while you were at work on the user's last message; this is a record of what you did before it, and nothing of it needs a comment.
	//
	// That message was:
	// > Deploy it, please.
	//
	// You have already done this for it, oldest first; do not repeat it.
	// - You ran “make deploy” with Bash. It answered “deployed v4”.
	// - You began to run “make announce” with Bash; its outcome is unknown: check before you do it again.
	//
	// You had begun to say:
	// > It is deployed, and now
	//
	// Now go on with that message where you stopped, and do not repeat what is done.
}
