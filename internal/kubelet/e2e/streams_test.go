//go:build linux

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// ways are how kubectl speaks to the API server.
var ways = map[string][]string{
	"WebSocket": nil,
	"SPDY":      {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
}

const serves = "mkdir /www; echo hello >/www/index.html; httpd -p 8080 -h /www; echo serving; " + rests

// streams is one room in which kubectl connects with containers.
func streams(t *testing.T, c *cluster) {
	r := c.room(t, "streams")
	r.pod("web", serves, "    ports: [{name: http, containerPort: 8080}]", "    readinessProbe: {httpGet: {port: http}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 20}")
	r.pod("talks", "while read line; do echo you said $line; done; echo heard all", "    stdin: true", "    stdinOnce: true", "  restartPolicy: Never")
	r.pod("terminal", "while read line; do echo you said $line; done", "    stdin: true", "    tty: true")
	r.apply(serviceText)
	r.ready("web")
	r.ready("talks")
	r.kubectl("rollout", "status", "deployment", "web", "--timeout=120s")
	for name, env := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &room{c, t, r.name}
			t.Run("exec", r.executes(env))
			t.Run("exec on a terminal", r.onTerminal(env))
			t.Run("cp", r.copies(env))
			t.Run("attach to a terminal", r.attaches(env))
			t.Run("port-forward", r.portForwards(env))
			t.Run("debug", r.debugs(name, env))
		})
	}
	t.Run("run and attach", func(t *testing.T) {
		t.Parallel()
		r := &room{c, t, r.name}
		out := r.spoken(nil, "one\ntwo\n", "attach", "-i", "talks")
		if !strings.Contains(out, "you said one") || !strings.Contains(out, "heard all") {
			t.Errorf("attach printed %q", out)
		}
		if out := r.spoken(nil, "three\n", "run", "short", "--image="+image, "--restart=Never", "--rm", "-i", "--quiet", "--command", "--", "cat"); !strings.Contains(out, "three") {
			t.Errorf("run printed %q", out)
		}
	})
	t.Run("proxies", func(t *testing.T) { t.Parallel(); (&room{c, t, r.name}).proxies() })
	t.Run("logs", func(t *testing.T) { t.Parallel(); (&room{c, t, r.name}).logs() })
}

const serviceText = `apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: deployed}}
  template:
    metadata: {labels: {app: deployed}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: "localhost/box:1", command: [/bin/sh, -c, "mkdir /www; echo hello >/www/index.html; exec httpd -f -p 8080 -h /www"], ports: [{containerPort: 8080}]}
`

func (r room) in(t *testing.T) *room { r.t = t; return &r }

func (r *room) executes(env []string) func(*testing.T) {
	return func(t *testing.T) {
		r := r.in(t)
		if out := r.spoken(env, "in\n", "exec", "-i", "web", "--", "cat"); out != "in\n" {
			t.Errorf("cat printed %q", out)
		}
		out, errs, err := r.try(env, "", "exec", "web", "--", "sh", "-c", "echo out; echo oops >&2; exit 7")
		var exit *exec.ExitError
		if out != "out\n" || !strings.Contains(errs, "oops") || err == nil {
			t.Errorf("a command that fails printed %q and %q, and ended with %v", out, errs, err)
		}
		if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 7 {
			t.Errorf("a command that exits with 7 ended with %v, %v", err, exit)
		}
		if out := r.spoken(env, "", "exec", "deploy/web", "--", "echo", "deployed"); out != "deployed\n" {
			t.Errorf("in a deployment it printed %q", out)
		}
		if out := r.spoken(env, "", "exec", "web", "--", "sh", "-c", "head -c 3000000 /dev/zero"); len(out) != 3_000_000 {
			t.Errorf("of 3000000 bytes %d came", len(out))
		}
		if _, errs, err := r.try(env, "", "exec", "web", "--", "no-such-program"); err == nil || !strings.Contains(errs, "no-such-program") {
			t.Errorf("a program that is not there: %v, %q", err, errs)
		}
	}
}

// terminal is kubectl on a terminal of its own.
type terminal struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	text   chan string
}

func (r *room) onTerminalOf(env []string, rows, columns uint16, args ...string) *terminal {
	r.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	defer slave.Close()
	x := &terminal{t: r.t, master: master, cmd: r.command(args...), text: make(chan string, 1000)}
	x.resize(rows, columns)
	x.cmd.Env = append(os.Environ(), env...)
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = slave, slave, slave
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := x.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		defer close(x.text)
		for in := bufio.NewReader(master); ; {
			line, err := in.ReadString('\n')
			x.text <- line
			if err != nil {
				return
			}
		}
	}()
	return x
}

func (t *terminal) resize(rows, columns uint16) {
	t.t.Helper()
	if err := unix.IoctlSetWinsize(int(t.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.t.Fatal(err)
	}
}

func (t *terminal) say(text string) {
	if _, err := io.WriteString(t.master, text); err != nil {
		t.t.Error(err)
	}
}

// sees waits for a line with a text in it.
func (t *terminal) sees(text string) bool {
	for end := time.After(5 * time.Second); ; {
		select {
		case line, ok := <-t.text:
			if strings.Contains(line, text) {
				return true
			}
			if !ok {
				return false
			}
		case <-end:
			return false
		}
	}
}

func (t *terminal) close() error {
	defer t.master.Close()
	timer := time.AfterFunc(testTimeout, func() { _ = t.cmd.Process.Kill() })
	defer timer.Stop()
	go func() {
		for range t.text { // what nobody looked at
		}
	}()
	return t.cmd.Wait()
}

func (r *room) onTerminal(env []string) func(*testing.T) {
	return func(t *testing.T) {
		x := r.in(t).onTerminalOf(env, 40, 100, "exec", "-it", "web", "--", "/bin/sh")
		asked := func(want string) {
			t.Helper()
			for range 10 { // the size travels beside the input
				x.say("stty size\r")
				if x.sees(want) {
					return
				}
			}
			t.Errorf("the terminal's size never was %s", want)
		}
		asked("40 100")
		x.resize(20, 60)
		asked("20 60")
		x.say("exit 3\r")
		if err := x.close(); err == nil || err.(*exec.ExitError).ExitCode() != 3 {
			t.Errorf("a shell that exits with 3 ended with %v", err)
		}
	}
}

func (r *room) attaches(env []string) func(*testing.T) {
	return func(t *testing.T) {
		r := r.in(t)
		r.ready("terminal")
		x := r.onTerminalOf(env, 24, 80, "attach", "-it", "terminal")
		found := false
		for i := 0; i < 10 && !found; i++ {
			x.say("hello\r")
			found = x.sees("you said hello")
		}
		if !found {
			t.Error("nothing was said to what was attached")
		}
		_ = x.cmd.Process.Kill() // the container is to go on
		_ = x.close()
		if s := of(&r.get("terminal").Status, "main"); s.State.Running == nil || s.RestartCount > 0 {
			t.Errorf("who detaches ends the container: %+v", s)
		}
	}
}

func (r *room) copies(env []string) func(*testing.T) {
	return func(t *testing.T) {
		r := r.in(t)
		directory := t.TempDir()
		sent, back := filepath.Join(directory, "sent"), filepath.Join(directory, "back")
		if err := os.MkdirAll(filepath.Join(sent, "below"), 0o755); err != nil {
			t.Fatal(err)
		}
		large := strings.Repeat("0123456789abcdef", 1<<16)
		for name, text := range map[string]string{"one": "1\n", "below/two": large} {
			if err := os.WriteFile(filepath.Join(sent, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		into := "/tmp/" + strings.ReplaceAll(t.Name(), "/", "-")
		r.spoken(env, "", "cp", sent, "web:"+into)
		if out := r.spoken(env, "", "exec", "web", "--", "cat", into+"/one"); out != "1\n" {
			t.Errorf("what was copied in is %q", out)
		}
		r.spoken(env, "", "cp", "web:"+into, back)
		if text, err := os.ReadFile(filepath.Join(back, "below", "two")); err != nil || string(text) != large {
			t.Errorf("what was copied out has %d bytes, %v", len(text), err)
		}
	}
}

var forwarding = regexp.MustCompile(`127\.0\.0\.1:(\d+) ->`)

func (r *room) portForwards(env []string) func(*testing.T) {
	return func(t *testing.T) {
		r := r.in(t)
		for target, port := range map[string]string{"pod/web": "8080", "service/web": "80", "deployment/web": "8080"} {
			cmd := r.command("port-forward", "--address", "127.0.0.1", target, ":"+port)
			cmd.Env = append(os.Environ(), env...)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var errs strings.Builder
			cmd.Stderr = &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, _ := bufio.NewReader(out).ReadString('\n')
			if found := forwarding.FindStringSubmatch(line); found == nil {
				t.Errorf("%s: port-forward said %q", target, line)
			} else {
				for range 3 {
					if got := fetch("http://127.0.0.1:" + found[1]); got != "hello\n" {
						t.Errorf("%s answered %q", target, got)
					}
				}
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if errs.Len() > 0 {
				t.Errorf("%s: port-forward complained: %s", target, errs.String())
			}
		}
	}
}

func fetch(url string) string {
	client := &http.Client{Timeout: testTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return string(text)
}

func (r *room) debugs(way string, env []string) func(*testing.T) {
	return func(t *testing.T) {
		r := r.in(t)
		name := strings.ToLower(way)
		out := r.spoken(env, "cat /proc/1/cmdline; exit\n", "debug", "web", "-i", "--quiet", "--image="+image, "-c", name, "--target=main", "--", "/bin/sh")
		if !strings.Contains(out, "httpd") {
			t.Errorf("who debugs sees %q", out)
		}
		r.until("web", "debugged", func(s *corev1.PodStatus) bool { return of(s, name).State.Terminated != nil })
		// What is written last arrives, although the errors end before it.
		out, errs, err := r.try(env, "echo oops >&2; exec 2>&-; sleep 1; echo last; exit\n", "debug", "web", "-i", "--quiet", "--image="+image, "-c", name+"-last", "--", "/bin/sh")
		if out != "last\n" || errs != "oops\n" || err != nil {
			t.Errorf("who debugs reads %q and %q, %v", out, errs, err)
		}
		r.spoken(env, "", "debug", "web", "--image="+image, "-c", "extra", "--copy-to="+name, "--share-processes", "--", "/bin/sh", "-c", rests)
		r.until(name, "running", in(corev1.PodRunning))
		if out := r.spoken(env, "", "exec", name, "-c", "extra", "--", "ps"); !strings.Contains(out, "httpd") {
			t.Errorf("in a copy that shares processes there are %s", out)
		}
		if want, err := os.ReadFile("/etc/hostname"); err == nil {
			out := r.spoken(env, "cat /host/etc/hostname; exit\n", "debug", "node/"+nodeName, "-i", "--quiet", "--image="+image, "--", "/bin/sh")
			if !strings.Contains(out, strings.TrimSpace(string(want))) {
				t.Errorf("who debugs the node sees %q, and not %q", out, want)
			}
		}
	}
}

func (r *room) proxies() {
	for _, path := range []string{
		"/api/v1/namespaces/streams/pods/web:8080/proxy/", "/api/v1/namespaces/streams/pods/web/proxy/index.html",
		"/api/v1/namespaces/streams/services/web/proxy/", "/api/v1/namespaces/streams/services/web:80/proxy/", "/api/v1/namespaces/streams/services/http:web:80/proxy/",
	} {
		if out := r.kubectl("get", "--raw", path); out != "hello\n" {
			r.t.Errorf("%s is answered %q", path, out)
		}
	}
	if out := r.kubectl("get", "--raw", "/api/v1/nodes/"+nodeName+"/proxy/healthz"); out != "ok" {
		r.t.Errorf("the node's health is %q", out)
	}
	for path, want := range map[string]string{"pods": `"kind":"PodList"`, "runningpods/": `"kind":"PodList"`, "configz": "kubeletconfig", "stats/summary": `"nodeName":"real"`, "metrics/resource": "container_cpu_usage_seconds_total", "metrics": "# HELP", "metrics/cadvisor": "container_memory_working_set_bytes"} {
		if out, errs, err := r.try(nil, "", "get", "--raw", "/api/v1/nodes/"+nodeName+"/proxy/"+path); err != nil || !strings.Contains(out, want) {
			r.t.Errorf("%s: %v, %s, %.300q", path, err, errs, out)
		}
	}
	if _, errs, err := r.try(nil, "", "get", "--raw", "/api/v1/namespaces/streams/pods/web:8080/proxy/nothing"); err == nil || !strings.Contains(errs, "NotFound") && !strings.Contains(errs, "could not find") {
		r.t.Errorf("what is not there: %v, %s", err, errs)
	}
}

// logs are read as they grow, through rotations: the node rotates them when they have 20 KiB.
func (r *room) logs() {
	r.pod("chatty", "i=0; while [ $i -lt 4000 ]; do echo line $i of a log that grows and grows and is rotated; i=$((i+1)); done; sleep 1; while [ $i -lt 6000 ]; do echo line $i of a log that grows and grows and is rotated; i=$((i+1)); [ $((i%50)) = 0 ] && sleep 0.25; done; trap 'exit 0' TERM; while true; do echo last; sleep 1 & wait $!; done")
	r.until("chatty", "running", in(corev1.PodRunning))
	cmd := r.command("logs", "-f", "chatty")
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	next := -1
	for lines.Scan() && lines.Text() != "last" {
		var i int
		if _, err := fmt.Sscanf(lines.Text(), "line %d of", &i); err != nil {
			r.t.Fatalf("a line is %q", lines.Text())
		}
		if next >= 0 && i != next {
			r.t.Fatalf("after line %d came line %d", next-1, i)
		}
		next = i + 1
	}
	if next != 6000 {
		r.t.Errorf("the last line was %d", next-1)
	}
	// Only the newest file is read, as in Kubernetes: right after a rotation it is empty.
	eventually(r.t, "the last line is the last", func() bool { return r.kubectl("logs", "chatty", "--tail=1") == "last\n" })
	if out := r.kubectl("logs", "deploy/web", "--since=1h", "--timestamps"); out != "" {
		r.t.Errorf("who says nothing said %q", out)
	}
	files, _ := filepath.Glob(filepath.Join(r.directory, "kubelet", "logs", "streams_chatty_*", "main", "*"))
	if len(files) < 2 || len(files) > 5 {
		r.t.Errorf("there are %d files of logs", len(files))
	}
}
