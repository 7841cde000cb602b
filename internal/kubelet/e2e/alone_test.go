//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
)

const listens = "trap 'exit 0' TERM; echo one; echo two; while true; do echo hello | nc -l -p PORT; done & sleep 1000000 & wait"

func TestAMachineAlone(t *testing.T) {
	a := newAlone(t)
	_, port, _ := net.SplitHostPort(portOf(t, "127.0.0.1"))
	a.manifest("web", strings.ReplaceAll(listens, "PORT", port))
	a.until("the pod prints", func() bool { return strings.Contains(a.logs("web", ""), "two") })

	t.Run("only the API server may ask", a.onlyTheAPIServer)
	t.Run("logs", a.readsLogs)
	t.Run("commands, over SPDY and WebSocket", a.runsCommands)
	t.Run("ports are forwarded", func(t *testing.T) { a.forwards(t, port) })
	t.Run("volumes and environment", a.furnishes)
	t.Run("a kubelet that is killed finds its pods", a.comesBack)
}

func (a *alone) onlyTheAPIServer(t *testing.T) {
	stranger, err := rest.HTTPClientFor(a.stranger)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := rest.HTTPClientFor(newAuthority(t).config("api", a.url))
	if err != nil {
		t.Fatal(err)
	}
	path := "/containerLogs/default/web-node/main"
	for _, test := range []struct {
		who    string
		client *http.Client
		path   string
		status int
	}{
		{"nobody", a.none, path, http.StatusUnauthorized}, {"somebody else", stranger, path, http.StatusForbidden}, {"a forger", forged, path, 0},
		{"the API server", a.callerClient, path, http.StatusOK}, {"nobody, for health", a.none, "/healthz", http.StatusOK},
		{"the API server, for a pod that is not there", a.callerClient, "/containerLogs/default/none/main", http.StatusNotFound},
		{"the API server, for a container that is not there", a.callerClient, "/containerLogs/default/web-node/none", http.StatusNotFound},
		{"the API server, for an earlier run", a.callerClient, path + "?previous=true", http.StatusBadRequest},
	} {
		if status, text := a.get(test.client, test.path); status != test.status {
			t.Errorf("%s was answered %d: %s", test.who, status, text)
		}
	}
}

func (a *alone) readsLogs(t *testing.T) {
	if got := a.logs("web", "?tailLines=1"); got != "two\n" {
		t.Errorf("the last line is %q", got)
	}
	if got := a.logs("web", "?limitBytes=2"); got != "on" {
		t.Errorf("the first two bytes are %q", got)
	}
	if got := a.logs("web", "?timestamps=true"); !strings.HasSuffix(strings.SplitN(got, "\n", 2)[0], "Z one") && !strings.Contains(got, " one\n") {
		t.Errorf("with timestamps it is %q", got)
	}
}

func (a *alone) execute(path string, command []string, o remotecommand.StreamOptions) map[string]error {
	query := url.Values{"command": command}
	for name, wanted := range map[string]bool{"input": o.Stdin != nil, "output": o.Stdout != nil, "error": o.Stderr != nil && !o.Tty, "tty": o.Tty} {
		if wanted {
			query.Set(name, "1")
		}
	}
	target, err := url.Parse(a.url + path + "?" + query.Encode())
	if err != nil {
		a.t.Fatal(err)
	}
	spdyExecutor, err := remotecommand.NewSPDYExecutor(a.caller, http.MethodPost, target)
	if err != nil {
		a.t.Fatal(err)
	}
	webSocket, err := remotecommand.NewWebSocketExecutor(a.caller, http.MethodGet, target.String())
	if err != nil {
		a.t.Fatal(err)
	}
	results := map[string]error{}
	for name, executor := range map[string]remotecommand.Executor{"SPDY": spdyExecutor, "WebSocket": webSocket} {
		if s, ok := o.Stdin.(io.Seeker); ok {
			_, _ = s.Seek(0, io.SeekStart)
		}
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		results[name] = executor.StreamWithContext(ctx, o)
		cancel()
	}
	return results
}

func (a *alone) runsCommands(t *testing.T) {
	var out, errs bytes.Buffer
	path := "/exec/default/web-node/main"
	for how, err := range a.execute(path, []string{"/bin/sh", "-c", "cat; echo oops >&2"}, remotecommand.StreamOptions{Stdin: strings.NewReader("in\n"), Stdout: &out, Stderr: &errs}) {
		if err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
	if out.String() != "in\nin\n" || errs.String() != "oops\noops\n" {
		t.Errorf("the output was %q and %q", out.String(), errs.String())
	}
	for how, err := range a.execute(path, []string{"/bin/sh", "-c", "exit 7"}, remotecommand.StreamOptions{Stdout: &out}) {
		var code exec.CodeExitError
		if !errors.As(err, &code) || code.Code != 7 {
			t.Errorf("%s: a command that exits with 7 gives %v", how, err)
		}
	}
	out.Reset()
	for how, err := range a.execute(path, []string{"/bin/sh", "-c", "sleep 0.2; echo terminal; stty size"}, remotecommand.StreamOptions{Stdout: &out, Tty: true, TerminalSizeQueue: &oneSize{}}) {
		if err != nil {
			t.Errorf("%s with a terminal: %v", how, err)
		}
	}
	if strings.Count(out.String(), "terminal\r\n40 100\r\n") != 2 {
		t.Errorf("on a terminal the output was %q", out.String())
	}
}

// oneSize is a terminal that is never resized. It serves one caller after the other.
type oneSize struct{ told bool }

func (o *oneSize) Next() *remotecommand.TerminalSize {
	if o.told = !o.told; !o.told {
		return nil
	}
	return &remotecommand.TerminalSize{Width: 100, Height: 40}
}

func (a *alone) forwards(t *testing.T, port string) {
	target, err := url.Parse(a.url + "/portForward/default/web-node")
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(a.caller)
	if err != nil {
		t.Fatal(err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.NewOnAddresses(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target), []string{"127.0.0.1"}, []string{"0:" + port}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.ForwardPorts() }()
	<-ready
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	a.until("the port answers", func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
		if err != nil {
			return false
		}
		defer conn.Close()
		text := make([]byte, 6)
		_, err = io.ReadFull(conn, text)
		return err == nil && string(text) == "hello\n"
	})
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func (a *alone) furnishes(t *testing.T) {
	shared := filepath.Join(a.t.TempDir(), "shared") // the pod mounts it to its end
	a.manifest("furnished", "echo $(cat /info/labels) $WHO $(id -u):$(id -g) $(cat /etc/hosts | grep -c own.name) > /shared/out; touch /mem/x /root-is-read-only; echo rest $?; while true; do sleep 0.1; done",
		"    env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: WHO, value: 'I am $(NAME)'}]",
		"    securityContext: {runAsUser: 1000, runAsGroup: 2000, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}",
		"    resources: {limits: {memory: 64Mi, cpu: 500m}}",
		"    volumeMounts: [{name: info, mountPath: /info}, {name: shared, mountPath: /shared}, {name: mem, mountPath: /mem}]",
		"  hostAliases: [{ip: 10.0.0.1, hostnames: [own.name]}]",
		"  volumes:",
		"  - {name: info, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.namespace}}]}}",
		"  - {name: shared, hostPath: {path: "+shared+", type: DirectoryOrCreate}}",
		"  - {name: mem, emptyDir: {medium: Memory, sizeLimit: 1Mi}}")
	if err := os.MkdirAll(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	a.until("the pod has written", func() bool { return strings.Contains(a.logs("furnished", ""), "rest") })
	text, err := os.ReadFile(filepath.Join(shared, "out"))
	if want := "default I am furnished-node 1000:2000 1\n"; err != nil || string(text) != want {
		t.Errorf("the pod wrote %q, want %q; %v", text, want, err)
	}
	if got := a.logs("furnished", ""); !strings.Contains(got, "Read-only file system") {
		t.Errorf("the log is %q", got)
	}
}

func (a *alone) comesBack(t *testing.T) {
	r := openCRI(t)
	ids := func() string {
		all, err := r.Pods(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, p := range all {
			for _, c := range p.Containers {
				if p.Name == "web-node" {
					ids = append(ids, c.ID)
				}
			}
		}
		return strings.Join(ids, " ")
	}
	before := ids()
	a.stop()
	a.start()
	a.manifest("later", "echo begun; while true; do sleep 0.1; done")
	a.until("a new pod runs", func() bool { return strings.Contains(a.logs("later", ""), "begun") })
	if after := ids(); after != before {
		t.Errorf("before there were %s, after %s", before, after)
	}
}
