//go:build linux

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
)

// patient is what a probe asks: the test makes it well or ill. It is asked on the node, by pods that share its network.
type patient struct {
	probe string // as it stands in a pod
	be    func(well bool)
}

func overHTTP(t *testing.T, r *room) patient {
	var well atomic.Bool
	l := listenOn(t, r.host()+":0")
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("X-Who") != "probe" || !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return patient{fmt.Sprintf("httpGet: {path: /healthz, port: %d, httpHeaders: [{name: X-Who, value: probe}]}", l.Addr().(*net.TCPAddr).Port), well.Store}
}

func overTCP(t *testing.T, r *room) patient {
	address := portOf(t, r.host())
	_, port, _ := net.SplitHostPort(address)
	var open net.Listener
	shut := func() {
		if open != nil {
			open.Close()
		}
		open = nil
	}
	t.Cleanup(shut)
	return patient{"tcpSocket: {port: " + port + "}", func(well bool) {
		if shut(); well {
			open = listenOn(t, address)
		}
	}}
}

func overGRPC(t *testing.T, r *room) patient {
	l := listenOn(t, r.host()+":0")
	s, h := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(s, h)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return patient{fmt.Sprintf("grpc: {port: %d, service: it}", l.Addr().(*net.TCPAddr).Port), func(well bool) {
		h.SetServingStatus("it", map[bool]healthpb.HealthCheckResponse_ServingStatus{true: healthpb.HealthCheckResponse_SERVING, false: healthpb.HealthCheckResponse_NOT_SERVING}[well])
	}}
}

// probes asks in every way, for every purpose.
func probes(t *testing.T, c *cluster) {
	r := c.room(t, "probes")
	r.pod("slow", rests, "    readinessProbe: {exec: {command: [sleep, '30']}, periodSeconds: 2, timeoutSeconds: 1}")
	t.Run("too slow", func(t *testing.T) {
		t.Parallel()
		r.in(t).told("slow", "Unhealthy", `Readiness probe failed: command timed out: "sleep 30"`)
	})
	for name, make := range map[string]func(*testing.T, *room) patient{
		"exec": nil, "http": overHTTP, "tcp": overTCP, "grpc": overGRPC,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := r.in(t)
			directory := c.t.TempDir() // pods mount it to their end
			ask := func(what string) patient {
				if make == nil {
					return inFile(t, directory, what)
				}
				return make(t, r)
			}
			start, ready, live := ask("start"), ask("ready"), ask("live")
			live.be(true)
			ready.be(false)
			start.be(false)
			// Each failure is an event, and of the first 25 about a pod none may be dropped.
			r.pod(name, rests,
				fmt.Sprintf("    startupProbe: {%s, periodSeconds: 4, failureThreshold: 60, timeoutSeconds: 5}", start.probe),
				fmt.Sprintf("    readinessProbe: {%s, periodSeconds: 4, failureThreshold: 1, timeoutSeconds: 5}", ready.probe),
				fmt.Sprintf("    livenessProbe: {%s, periodSeconds: 1, failureThreshold: 2, timeoutSeconds: 5, terminationGracePeriodSeconds: 1}", live.probe),
				"    volumeMounts: [{name: health, mountPath: /health}]",
				"  hostNetwork: true",
				"  volumes: [{name: health, hostPath: {path: "+directory+"}}]")
			r.told(name, "Unhealthy", "Startup probe failed")
			if s := of(&r.get(name).Status, "main"); s.Started == nil || *s.Started {
				t.Errorf("before its startup probe the container is %+v", s)
			}
			start.be(true)
			r.told(name, "Unhealthy", "Readiness probe failed")
			p := r.until(name, "started and unready", func(s *corev1.PodStatus) bool { m := of(s, "main"); return m.Started != nil && *m.Started })
			if condition(&p.Status, corev1.PodReady) == corev1.ConditionTrue {
				t.Error("it is ready before its probe says so")
			}
			ready.be(true)
			r.ready(name)
			ready.be(false)
			r.until(name, "unready again", func(s *corev1.PodStatus) bool { return condition(s, corev1.PodReady) == corev1.ConditionFalse })
			ready.be(true)
			live.be(false)
			r.until(name, "restarted", func(s *corev1.PodStatus) bool { return of(s, "main").RestartCount == 1 })
			live.be(true)
			r.told(name, "Killing", "Container main failed liveness probe, will be restarted")
			r.ready(name)
		})
	}
}

// inFile is well while a file is there.
func inFile(t *testing.T, directory, name string) patient {
	return patient{"exec: {command: [test, -e, /health/" + name + "]}", func(well bool) {
		path := filepath.Join(directory, name)
		if _ = os.Remove(path); well {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	}}
}

// hooks are told in their time, and a container ends after its own.
func hooks(t *testing.T, c *cluster) {
	r := c.room(t, "hooks")
	directory := c.t.TempDir() // pods mount it to their end
	var told atomic.Pointer[string]
	l := listenOn(t, r.host()+":0")
	s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { path := q.URL.Path; told.Store(&path) })}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	mount := []string{"    volumeMounts: [{name: out, mountPath: /out}]", "  volumes: [{name: out, hostPath: {path: " + directory + "}}]"}
	r.pod("exec", "echo main >>/out/exec; trap 'echo ended >>/out/exec; exit 0' TERM; sleep 1000000 & wait",
		append([]string{"    lifecycle: {postStart: {exec: {command: [sh, -c, 'sleep 0.5; echo started >>/out/exec']}}, preStop: {exec: {command: [sh, -c, 'echo stopping >>/out/exec']}}}"}, mount...)...)
	r.pod("http", rests, fmt.Sprintf("    lifecycle: {preStop: {httpGet: {host: %s, port: %d, path: /stopping}}}", r.host(), l.Addr().(*net.TCPAddr).Port))
	r.pod("sleep", rests, "    lifecycle: {preStop: {sleep: {seconds: 1}}}")
	r.pod("fails", rests, "    lifecycle: {postStart: {exec: {command: [sh, -c, 'exit 3']}}}")
	for _, name := range []string{"exec", "http", "sleep"} {
		r.ready(name)
	}
	r.told("fails", "FailedPostStartHook", "exited with 3")
	r.kubectl("delete", "pod", "exec", "http", "sleep", "--grace-period=5")
	text, err := os.ReadFile(filepath.Join(directory, "exec"))
	if want := "main started stopping ended"; err != nil || strings.Join(strings.Fields(string(text)), " ") != want {
		t.Errorf("the order was %q, %v", text, err)
	}
	if path := told.Load(); path == nil || *path != "/stopping" {
		t.Errorf("over HTTP was told %v", path)
	}
}
