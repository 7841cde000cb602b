package hollow

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/demand"
)

// Prefix begins the names of the annotations that script a pod.
const Prefix = "hollow.millrace.dev/"

const (
	forever      = time.Duration(-1)
	defaultCrash = time.Second
	defaultWork  = time.Second
)

// script describes what a fake container does.
type script struct {
	startDelay, runFor, crashAfter, stopDelay time.Duration
	readyAfter, unreadyAfter, unhealthyAfter  time.Duration
	exitCode, crashCode                       int32
	crashes                                   int32
	log, message                              string
	// lastWords is set if the log is used as termination message after a failure.
	lastWords bool
}

// scriptOf reads the script of a container. Invalid values are ignored.
func scriptOf(pod *corev1.Pod, c *corev1.Container) script {
	s := script{runFor: forever, crashAfter: defaultCrash, crashCode: 1, unreadyAfter: forever, unhealthyAfter: forever}
	initial := once(pod, c)
	switch owner := metav1.GetControllerOfNoCopy(pod); {
	case initial:
		s.runFor = 0
	case owner != nil && owner.Kind == "Job":
		s.runFor = defaultWork
	}
	if len(pod.Annotations) == 0 {
		return s
	}
	r := reader{pod.Annotations, c.Name, initial}
	r.duration("start-delay", &s.startDelay)
	r.duration("run-for", &s.runFor)
	r.duration("crash-after", &s.crashAfter)
	r.duration("stop-delay", &s.stopDelay)
	r.duration("ready-after", &s.readyAfter)
	r.duration("unready-after", &s.unreadyAfter)
	r.duration("unhealthy-after", &s.unhealthyAfter)
	r.number("exit-code", &s.exitCode)
	r.number("crash-code", &s.crashCode)
	r.number("crashes", &s.crashes)
	s.log, _ = r.text("log")
	s.message, _ = r.text("message")
	s.lastWords = c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError
	return s
}

// longestTail is how much of a log is used as termination message, as on a real node.
const longestTail = 2048

// left returns the termination message.
func (s *script) left(code int32) string {
	if s.message != "" || code == 0 || !s.lastWords {
		return s.message
	}
	return s.log[max(0, len(s.log)-longestTail):]
}

// once reports whether a container is an init container that must exit.
func once(pod *corev1.Pod, c *corev1.Container) bool {
	if demand.Sidecar(c) {
		return false
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == c.Name {
			return true
		}
	}
	return false
}

// run returns how long a run lasts and its exit code.
func (s *script) run(attempt int32) (time.Duration, int32) {
	if attempt < s.crashes {
		return s.crashAfter, s.crashCode
	}
	return s.runFor, s.exitCode
}

type reader struct {
	annotations map[string]string
	container   string
	ownOnly     bool
}

func (r reader) text(name string) (string, bool) {
	if v, ok := r.annotations[Prefix+name+"."+r.container]; ok {
		return v, true
	}
	if r.ownOnly {
		return "", false
	}
	v, ok := r.annotations[Prefix+name]
	return v, ok
}

func (r reader) duration(name string, into *time.Duration) {
	if text, ok := r.text(name); ok {
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			*into = d
		}
	}
}

func (r reader) number(name string, into *int32) {
	if text, ok := r.text(name); ok {
		if n, err := strconv.ParseInt(text, 10, 32); err == nil {
			*into = int32(n)
		}
	}
}
