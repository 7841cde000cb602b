package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container/conformance"
	"github.com/millrace/millrace/internal/kubelet/cri"
	"github.com/millrace/millrace/internal/kubelet/hollow"
)

const image = "localhost/box:1"

// socket is that of a container runtime. Without one the test is skipped.
func socket(t *testing.T) string {
	t.Helper()
	s := os.Getenv("MILLRACE_CRI_SOCKET")
	if s == "" {
		t.Skip("MILLRACE_CRI_SOCKET names no container runtime; setup.sh starts one")
	}
	return s
}

func openCRI(t *testing.T) *cri.Runtime {
	t.Helper()
	r, err := cri.Open(cri.Options{Socket: socket(t), Addresses: []string{"127.0.0.1"}, PollEvery: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func pod(containers ...corev1.Container) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name = "default", "subject"
	p.Spec.NodeName = "node"
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	p.Spec.TerminationGracePeriodSeconds = new(int64(5))
	p.Spec.Containers = containers
	return p
}

// play is what a container does, told in a way that both runtimes understand.
type play struct {
	after time.Duration
	code  int
	lasts bool
	slow  bool          // takes no notice of being asked to stop
	ends  time.Duration // how long it takes to stop when it is asked to
	says  string
}

// shell is a play for a real container.
func (p play) shell() []string {
	var s strings.Builder
	switch {
	case p.slow:
		s.WriteString("trap '' TERM; ")
	case p.ends > 0:
		fmt.Fprintf(&s, "trap 'sleep %.2f; exit 0' TERM; ", p.ends.Seconds())
	default:
		s.WriteString("trap 'exit 0' TERM; ")
	}
	if p.says != "" {
		fmt.Fprintf(&s, "printf '%s' >/dev/termination-log; ", p.says)
	}
	if p.lasts {
		s.WriteString("sleep 1000000 & wait")
	} else {
		fmt.Fprintf(&s, "sleep %.2f; exit %d", p.after.Seconds(), p.code)
	}
	return []string{"/bin/sh", "-c", s.String()}
}

// script is a play for a pretended container.
func (p play) script(pod *corev1.Pod, name string) {
	note := func(key, value string) {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[hollow.Prefix+key+"."+name] = value
	}
	if p.says != "" {
		note("message", p.says)
	}
	switch {
	case p.slow:
		note("stop-delay", "1h")
	case p.ends > 0:
		note("stop-delay", p.ends.String())
	}
	if p.lasts {
		note("run-for", "1000h")
		return
	}
	note("run-for", p.after.String())
	note("exit-code", strconv.Itoa(p.code))
}

// act makes a container play, on whatever it runs.
func (p play) act(pod *corev1.Pod, c *corev1.Container) {
	c.Image, c.Command = image, p.shell()
	p.script(pod, c.Name)
}

func acting(p play) func() *corev1.Pod {
	return func() *corev1.Pod {
		subject := pod(corev1.Container{Name: "main"})
		p.act(subject, &subject.Spec.Containers[0])
		return subject
	}
}

func TestHollowRuntimeKeepsItsPromises(t *testing.T) {
	r := hollow.NewRuntime(func(string) string { return "10.64.0.0/24" })
	conformance.Run(t, &conformance.Subject{
		Runtime: r, Images: r, Image: image, Timeout: time.Minute,
		Running: acting(play{lasts: true}), Ending: acting(play{after: 10 * time.Millisecond, code: 3}),
	})
}

func TestContainerRuntimeKeepsItsPromises(t *testing.T) {
	r := openCRI(t)
	conformance.Run(t, &conformance.Subject{
		Runtime: r, Images: r, Image: image, Timeout: time.Minute,
		Running: acting(play{lasts: true}), Ending: acting(play{after: 300 * time.Millisecond, code: 3}),
	})
}
