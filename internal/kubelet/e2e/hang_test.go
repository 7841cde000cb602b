//go:build linux

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hang makes the runtime hang under containers that run: it takes requests and answers none.
func (s *survivors) hang(directory string) {
	c, t := s.cluster, s.t
	var asked atomic.Int64
	l := listenOn(t, s.host()+":0")
	web := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) })}
	go web.Serve(l)
	t.Cleanup(func() { web.Close() })
	runtime, own := relayTo(t, socket(t))
	c.node.end(syscall.SIGTERM)
	c.startNode("--container-runtime-endpoint", own)
	live := inFile(t, directory, "live")
	live.be(true)
	s.pod("asked", rests,
		fmt.Sprintf("    readinessProbe: {httpGet: {path: /, port: %d}, periodSeconds: 1, timeoutSeconds: 5}", l.Addr().(*net.TCPAddr).Port),
		fmt.Sprintf("    livenessProbe: {%s, periodSeconds: 1, failureThreshold: 1, timeoutSeconds: 1}", live.probe),
		"    volumeMounts: [{name: health, mountPath: /health}]",
		"  hostNetwork: true",
		"  volumes: [{name: health, hostPath: {path: "+directory+"}}]")
	s.ready("asked")

	resume := runtime.stall(t)
	eventually(t, "the node is not ready", func() bool { return strings.Contains(s.notReady(), "container runtime is down") })
	before := asked.Load()
	eventually(t, "probes over the network go on", func() bool { return asked.Load() > before+2 })
	if d := away(t); d > 3*time.Minute { // so long that the kubelet misses what it looks at
		time.Sleep(d)
		if why := c.notReady(); !strings.Contains(why, "[container runtime is down") || !strings.Contains(why, ", PLEG is not healthy: pleg was last seen active 3m") {
			t.Errorf("the node is %q", why)
		}
	}
	resume()
	eventually(t, "the node is ready again", func() bool { return s.notReady() == "" })
	eventually(t, "the node has told", func() bool {
		out := s.kubectl("get", "events", "-A", "--field-selector", "involvedObject.kind=Node,source=kubelet", "-o", "jsonpath={.items[*].reason}")
		return strings.Contains(out, "NodeNotReady") && strings.Contains(out, "NodeReady") && strings.Contains(out, "Starting")
	})
	s.unharmed("the-runtime-hangs")
	if p := s.ready("asked"); of(&p.Status, "main").RestartCount > 0 {
		t.Errorf("a runtime that hangs cost the pod its life: %+v", of(&p.Status, "main"))
	}

	resume = runtime.stall(t)
	s.kubectl("delete", "pod", "asked", "--wait=false") // so that there is something to be done that cannot be done
	time.Sleep(time.Second)
	began := time.Now()
	c.node.end(syscall.SIGTERM)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("while the runtime hung the kubelet took %v to end", took)
	}
	resume()
	c.startNode()
	s.gone("asked")
}

// notReady says why the node is not ready, or nothing.
func (c *cluster) notReady() string {
	n, err := c.kube.CoreV1().Nodes().Get(context.Background(), nodeName, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return string(condition.Status) + " " + condition.Reason + ": " + condition.Message
		}
	}
	return ""
}
