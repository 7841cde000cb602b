// Package kubectl_test runs kubectl's own commands with a whole cluster. Their output is compared with transcripts:
//
//	go test ./proof/kubectl -update
//
// writes them again. A transcript begins with files ("-- name --"), which commands find in their working directory.
// Then come commands, each a line that begins with "$", followed by its output, and the exit code if it is not zero. "A
// & B" runs B as soon as A has printed something, and "A | tail -1" keeps the last line. "eventually A" repeats A until
// its output is that of the transcript. That is for what is written later, such as events.
package kubectl_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/proof/internal/kubectl"
)

var update = flag.Bool("update", false, "write the transcripts anew")

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		file, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { replay(t, file) })
	}
}

func replay(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t)
	var out strings.Builder
	head, script := s.unpack(t, string(text))
	out.WriteString(head)
	for _, c := range commands(script) {
		fmt.Fprintf(&out, "$ %s\n%s", c.line, s.do(c))
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, want := out.String(), string(text); got != want {
		t.Errorf("%s", firstDifference(got, want))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	command := ""
	for i := range min(len(g), len(w)) {
		if strings.HasPrefix(w[i], "$ ") {
			command = w[i]
		}
		if g[i] != w[i] {
			return fmt.Sprintf("%s\nline %d\n got: %s\nwant: %s", command, i+1, strings.Join(g[i:min(i+8, len(g))], "\n      "), w[i])
		}
	}
	return "one is longer than the other"
}

// session is a cluster and a working directory for commands.
type session struct {
	directory string
	config    string
	server    string
}

func start(t *testing.T) *session {
	c, err := millrace.Start(t.Context(), millrace.Options{Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &session{directory: t.TempDir(), server: c.URL()}
	s.config = filepath.Join(s.directory, "kubeconfig")
	if err := os.WriteFile(s.config, c.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(s.directory)
	t.Setenv("KUBE_EDITOR", "sh "+filepath.Join(s.directory, "editor"))
	return s
}

// unpack writes a transcript's files and returns them unchanged, and the rest of the transcript.
func (s *session) unpack(t *testing.T, text string) (head, script string) {
	i := strings.Index("\n"+text, "\n$ ")
	if i < 0 {
		t.Fatal("no command")
	}
	head, script = text[:i], text[i:]
	var name string
	contents := map[string]string{}
	for line := range strings.Lines(head) {
		if rest, ok := strings.CutPrefix(line, "-- "); ok {
			name = strings.TrimSuffix(strings.TrimSpace(rest), " --")
			continue
		}
		contents[name] += line
	}
	delete(contents, "")
	for name, content := range contents {
		path := filepath.Join(s.directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return head, script
}

// command is a line of a script, and the expected output.
type command struct{ line, want string }

func commands(script string) []command {
	var out []command
	for line := range strings.Lines(script) {
		if c, ok := strings.CutPrefix(line, "$ "); ok {
			out = append(out, command{line: strings.TrimSpace(c)})
		} else {
			out[len(out)-1].want += line
		}
	}
	return out
}

// failAfter only makes a failure end. When transcripts are written again the output is not known, so it is taken after
// a while.
const (
	failAfter = 60 * time.Second
	while     = 2 * time.Second
)

// do runs a command, repeatedly after "eventually".
func (s *session) do(c command) string {
	line, repeated := strings.CutPrefix(c.line, "eventually ")
	if !repeated {
		return s.run(line)
	}
	if *update {
		time.Sleep(while)
		return s.run(line)
	}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if got := s.run(line); got == c.want || time.Since(begun) > failAfter {
			return got
		}
	}
}

// run runs one line of the script, and returns its output.
func (s *session) run(line string) string {
	if first, second, both := strings.Cut(line, " & "); both {
		return s.runBoth(first, second)
	}
	line, last := strings.CutSuffix(line, " | tail -1")
	text := s.finish(line, &screen{}, &screen{})
	if last {
		lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
		return lines[len(lines)-1] + "\n"
	}
	return text
}

func (s *session) runBoth(first, second string) string {
	out := &screen{}
	var running sync.WaitGroup
	var text string
	running.Go(func() { text = s.finish(first, out, &screen{}) })
	for out.String() == "" {
		time.Sleep(time.Millisecond)
	}
	after := s.finish(second, &screen{}, &screen{})
	running.Wait()
	return text + after
}

// screen collects the output of several goroutines.
type screen struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// finish is one call of kubectl.
func (s *session) finish(line string, out, errOut *screen) string {
	e := kubectl.Run(s.config, out, errOut, words(line)[1:]...)
	text := out.String() + errOut.String()
	if e.Message != "" {
		text += strings.TrimSuffix(e.Message, "\n") + "\n"
	}
	if e.Code != 0 {
		text += fmt.Sprintf("(exit %d)\n", e.Code)
	}
	return s.calm(text)
}

// words splits a command like a shell, with quotes of both kinds.
func words(line string) []string {
	var out []string
	var word strings.Builder
	var quote rune
	open := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && r == ' ':
			if open {
				out = append(out, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if open {
		out = append(out, word.String())
	}
	return out
}

// Replacements for values that differ between runs.
var calming = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?( [+-]\d{4} \S+)?`), "TIME"},
	{regexp.MustCompile(`(resourceVersion"?: ?)"\d+"`), `${1}"RV"`},
	{regexp.MustCompile(`X509SHA256=[0-9a-f]{64}`), "X509SHA256=DIGEST"},
	{regexp.MustCompile(`\b10\.\d+\.\d+\.\d+\b`), "IP"},
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "-HASH-XXXXX"},
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b`), "-HASH"},
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "-XXXXX"},
	{regexp.MustCompile(`(?m)^( +(Start Time|Started|Finished): +).*`), "${1}TIME"},
	{regexp.MustCompile(`hollow://[0-9a-f]{16,}`), "hollow://ID"},
	{regexp.MustCompile(`(pod-template-hash["=:]+ ?"?)[bcdfghjklmnpqrstvwxz2456789]{8,10}`), "${1}HASH"},
	{regexp.MustCompile(`(?m)( {2,})(\d+[smhd])+(\s|$)`), "${1}AGE${3}"},
	{regexp.MustCompile(`(?m)( {2,})<unknown>(\s|$)`), "${1}AGE${2}"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
	{regexp.MustCompile(`(?m) +$`), ""},
}

func (s *session) calm(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, s.server, "SERVER"), s.directory, "DIRECTORY")
	text = regexp.MustCompile(`/tmp/(LIVE|MERGED)-\d+`).ReplaceAllString(text, "/tmp/$1")
	for _, c := range calming {
		text = c.what.ReplaceAllString(text, c.with)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}
