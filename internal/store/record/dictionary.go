package record

// dictionary contains text that is frequent in records: the skeletons of agents' messages and tool calls, and words of
// code and of prose about code. zstd refers to it, so a short record need not repeat the text. Stored records need this
// dictionary unchanged. A better dictionary must be added under another number.
const dictionary = `the and that this with from have will not for you are was can but all when which there their would should could because before after
function return returns error errors nil null undefined import package const string number boolean interface struct type class public private static void async await
let var func def self err != nil { return err } } else { if err := ; err != nil {
 context.Context, err error) (t *testing.T) { t.Fatal(err) t.Helper() fmt.Errorf("%w", err) fmt.Println( console.log( print( require( export default function module.exports
--- FAIL: --- PASS: ok  	FAIL	exit status 1 PASS expected received undefined is not a function Traceback (most recent call last): File "", line , in 
diff --git a/ b/ index 100644 --- a/ +++ b/ @@ -1,7 +1,7 @@ On branch main Your branch is up to date with 'origin/main'. nothing to commit, working tree clean
total drwxr-xr-x -rw-r--r-- 1 root root 4096 Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec package.json README.md go.mod main.go index.ts src/ test/ internal/ node_modules/ .git/ .github/workflows/
I'll I'm Let me look at the Now let me check the Now I'll update the Let me run the tests to make sure everything works. The tests pass. The file has been updated successfully. Here's the result of running ` + "`cat -n`" + ` on a snippet of the edited file:\n
The file /home/ has been updated. All tests pass now. I need to understand the code first. Let me read the file to see how it works.\n\n1. 2. 3. **\n\n- ` + "```go\\n```typescript\\n```python\\n```bash\\n```json\\n" + `
<system-reminder>\n</system-reminder>\nFile content exceeds maximum allowed No matches found No files found Exit code 1\n String to replace not found in file.\nString: 
{"jsonrpc":"2.0","id":,"method":"session/update","params":{"sessionId":"","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""}}}}
{"sessionUpdate":"tool_call","toolCallId":"","title":"","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"
{"role":"system","content":""},{"role":"user","content":""},{"role":"assistant","content":null,"tool_calls":[{"id":"call_","type":"function","function":{"name":"","arguments":"{\"path\":\"
{"type":"function_call","call_id":"call_","name":"shell","arguments":"{\"command\":[\"bash\",\"-lc\",\""}{"type":"function_call_output","call_id":"call_","output":"{\"output\":\"\",\"metadata\":{\"exit_code\":0,\"duration_seconds\":0.
{"id":"chatcmpl-","object":"chat.completion","created":17,"model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":,"completion_tokens":,"total_tokens":
"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}{"type":"reasoning","summary":[],"encrypted_content":"
{"session_id":"","transcript_path":"/home//.claude/projects/-home-/","cwd":"/home/","permission_mode":"default","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"","description":""},"tool_response":{"stdout":"","stderr":"","interrupted":false,"isImage":false},"tool_use_id":"toolu_01"}
{"tool_name":"Write","tool_input":{"file_path":"/home/","content":""},"tool_response":{"type":"create","filePath":"","structuredPatch":[{"oldStart":1,"oldLines":7,"newStart":1,"newLines":7,"lines":["
{"file_path":"/home/","old_string":"","new_string":"","replace_all":false}{"pattern":"","path":"/","output_mode":"content","-n":true,"glob":"**/*.ts"}{"todos":[{"content":"","status":"in_progress","activeForm":""},{"content":"","status":"pending","activeForm":""}]}
{"parentUuid":"","isSidechain":false,"userType":"external","cwd":"/home/","sessionId":"","version":"2.0.","gitBranch":"main","type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_01","type":"tool_result","content":"","is_error":false}]},"uuid":"","timestamp":"2026-01-01T00:00:00.000Z","toolUseResult":{
{"model":"claude-opus-4-","id":"msg_01","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"","signature":""},{"type":"text","text":""},{"type":"tool_use","id":"toolu_01","name":"Read","input":{"file_path":"/home/
"content":[{"text":"","type":"text"},{"id":"toolu_01","input":{"file_path":"/home/","command":""},"name":"Bash","type":"tool_use"}],"id":"msg_01","model":"claude-sonnet-4-5","role":"assistant","stop_reason":"end_turn","stop_sequence":null,
"stop_reason":"tool_use","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"input_tokens":,"output_tokens":,"service_tier":"standard"}}
message intent result note user agent segno claude claude-code codex gemini turn step base external restore main /home/ /.claude/projects/ .jsonl
`

// dictionaryID is dictionary's number in a zstd frame.
const dictionaryID = 1
