//go:build linux

package e2e

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// away is how long the API server is away: $MILLRACE_E2E_AWAY, or not long.
func away(t *testing.T) time.Duration {
	text := os.Getenv("MILLRACE_E2E_AWAY")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// lonely are pods to which things happen while nobody can be told.
type lonely struct {
	*survivors
	crashes, ill *corev1.Pod
	live         patient
}

func (s *survivors) lonely(name, directory string) *lonely {
	s.t.Helper()
	l := &lonely{survivors: s, live: inFile(s.t, directory, "live")}
	l.live.be(true)
	s.pod(name+"-crashes", "sleep 1; exit 1")
	s.pod(name+"-ill", rests, "    livenessProbe: {"+l.live.probe+", periodSeconds: 1, failureThreshold: 2, timeoutSeconds: 5}",
		"    volumeMounts: [{name: health, mountPath: /health}]", "  volumes: [{name: health, hostPath: {path: "+directory+"}}]")
	l.ill = s.ready(name + "-ill")
	l.crashes = s.until(name+"-crashes", "restarted", func(st *corev1.PodStatus) bool { return of(st, "main").RestartCount > 0 })
	return l
}

// pass lets a time pass in which nobody can be told: who ran runs, who crashes is started again, and so is who falls
// ill.
func (l *lonely) pass(d time.Duration) {
	t, runs, end := l.t, openCRI(l.t), time.Now().Add(d)
	run := func(p *corev1.Pod) *container.Container {
		found, err := runs.Pod(context.Background(), p.UID)
		if err != nil {
			t.Fatal(err)
		}
		if c := found.Container("main"); c != nil {
			return c
		}
		return &container.Container{}
	}
	crashed := run(l.crashes).Attempt
	l.live.be(false)
	eventually(t, "who fell ill is started again", func() bool { return run(l.ill).Attempt > 0 })
	l.live.be(true)
	eventually(t, "who crashes is started again", func() bool { return run(l.crashes).Attempt > crashed })
	for time.Now().Before(end) {
		for _, p := range l.pods {
			if c := run(p); c.State != container.Running || c.ID != of(&p.Status, "main").ContainerID {
				t.Fatalf("pod %s is %+v", p.Name, c)
			}
		}
		time.Sleep(time.Second)
	}
}

// back checks that what happened is told afterwards.
func (l *lonely) back() {
	l.until(l.ill.Name, "told to have been started again", func(s *corev1.PodStatus) bool { return ready(s) && of(s, "main").RestartCount > 0 })
	before := of(&l.crashes.Status, "main").RestartCount
	l.until(l.crashes.Name, "told to have crashed again", func(s *corev1.PodStatus) bool { return of(s, "main").RestartCount > before })
	l.kubectl("delete", "pod", l.ill.Name, l.crashes.Name)
}

// withoutAPI: the API server ends, and comes back.
func (s *survivors) withoutAPI(directory string) {
	c, l := s.cluster, s.lonely("away", directory)
	c.control.end(syscall.SIGTERM)
	l.pass(away(s.t))
	c.startControl()
	l.back()
	s.unharmed("the-api-server-is-away")
	for _, word := range []string{"cannot be reached", "can be reached again"} {
		if n := strings.Count(c.node.said(), word); n != 1 {
			s.t.Errorf("the kubelet said %d times that the API server %s", n, word)
		}
	}
	if strings.Contains(c.node.said(), "ERROR") {
		s.t.Errorf("the kubelet said\n%s", c.node.said())
	}
}

// cutOff: the API server and its loops are there, and the node does not reach them.
func (s *survivors) cutOff() {
	c, t := s.cluster, s.t
	if away(t) < time.Minute {
		t.Skip("the loops would not notice; MILLRACE_E2E_AWAY=150s is long enough")
	}
	listener := listenOn(t, "127.0.0.1:0")
	between := newRelay(t, listener, func() (net.Conn, error) { return net.Dial("tcp", c.listen) })
	text, err := os.ReadFile(c.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(string(text), c.listen, listener.Addr().String())), 0o600); err != nil {
		t.Fatal(err)
	}
	c.node.end(syscall.SIGTERM)
	c.startNode("--kubeconfig", config)
	l := s.lonely("cut", t.TempDir())
	between.part()
	l.pass(away(t))
	if why := c.notReady(); !strings.HasPrefix(why, "Unknown NodeStatusUnknown") {
		t.Errorf("a node that says nothing is %q", why)
	}
	for _, p := range s.pods {
		if now := s.get(p.Name); ready(&now.Status) {
			t.Errorf("on a node that says nothing pod %s is %+v", p.Name, now.Status)
		}
	}
	between.meet()
	eventually(t, "the node is ready again", func() bool { return c.notReady() == "" })
	for _, p := range s.pods {
		s.ready(p.Name)
	}
	l.back()
	s.unharmed("the-node-is-cut-off")
	c.node.end(syscall.SIGTERM)
	c.startNode()
}
