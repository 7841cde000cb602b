package scheduler

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/millrace/millrace/internal/scheduler/extender"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// extenderServer answers filter, prioritize and bind: it refuses bad nodes and prefers one of them.
func extenderServer(t *testing.T, w *world, bad, likes string) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(rw http.ResponseWriter, v any) { _ = json.NewEncoder(rw).Encode(v) }
	mux.HandleFunc("POST /v1/filter", func(rw http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			t.Error(err)
		}
		result := extenderv1.ExtenderFilterResult{Nodes: &corev1.NodeList{}, FailedNodes: extenderv1.FailedNodesMap{}}
		for _, node := range args.Nodes.Items {
			if strings.Contains(bad, node.Name) {
				result.FailedNodes[node.Name] = "node(s) smell of paint"
			} else {
				result.Nodes.Items = append(result.Nodes.Items, node)
			}
		}
		answer(rw, result)
	})
	mux.HandleFunc("POST /v1/prioritize", func(rw http.ResponseWriter, _ *http.Request) {
		answer(rw, extenderv1.HostPriorityList{{Host: likes, Score: 10}})
	})
	mux.HandleFunc("POST /v1/bind", func(rw http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderBindingArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			t.Error(err)
		}
		if err := w.carryOut(&cluster.Pod{Key: keyOf(args.PodName), UID: args.PodUID}, args.Node); err != nil {
			t.Error(err)
		}
		answer(rw, extenderv1.ExtenderBindingResult{})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestExtendersHaveASay(t *testing.T) {
	for _, c := range []struct{ name, bad, want, note string }{
		{"one refuses a node and likes another", "n1", "n3", ""},
		{"one refuses all", "n1 n2 n3", "", "0/3 nodes are available: 3 node(s) smell of paint."},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			for _, name := range []string{"n1", "n2", "n3"} {
				w.nodes.Add(testNode(name, "4"))
			}
			server := extenderServer(t, w, c.bad, "n3")
			e, err := extender.New(configv1.Extender{URLPrefix: server.URL + "/v1", FilterVerb: "filter", PrioritizeVerb: "prioritize", BindVerb: "bind", Weight: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer w.start(t, Options{Extenders: []*extender.Extender{e}})()
			w.pods.Add(testPod("web", "1"))
			eventually(t, func() bool {
				return c.want != "" && w.nodeOf(t, "web") == c.want || c.note != "" && strings.Contains(strings.Join(w.eventLog(), " "), c.note)
			})
		})
	}
}

// eventually waits for something that depends on a server outside of the synctest bubble.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it has not come about")
		}
		<-time.After(time.Millisecond)
	}
}

// An extender that is called for preemption refuses some nodes, and can choose other victims.
func TestExtendersAreAskedWhoMayLeave(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims
		want   string // the victim
		note   string
	}{
		{"it refuses a node", func(asked map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims {
			return map[string]*extenderv1.MetaVictims{"n2": {Pods: []*extenderv1.MetaPod{{UID: string(asked["n2"].Pods[0].UID)}}}}
		}, "b", "found a potential placement for pod on node n2, preempting 1 victims"},
		{"it refuses all", func(map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims { return nil }, "", "preemption: no candidate node for preemption"},
		{"it names nobody", func(map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims {
			return map[string]*extenderv1.MetaVictims{"n1": {}}
		}, "", `expected at least one victim pod on node "n1"`},
		{"it names a pod that is not there", func(map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims {
			return map[string]*extenderv1.MetaVictims{"n1": {Pods: []*extenderv1.MetaPod{{UID: "nobody"}}}}
		}, "", `claims to preempt a pod with the UID "nobody", which is not on node "n1"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			for _, name := range []string{"n1", "n2"} {
				w.nodes.Add(testNode(name, "1"))
			}
			w.pods.Add(running("a", "1", 1, "n1", 1))
			w.pods.Add(running("b", "1", 2, "n2", 1))
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				var args extenderv1.ExtenderPreemptionArgs
				if err := json.NewDecoder(r.Body).Decode(&args); err != nil || len(args.NodeNameToVictims) != 2 {
					t.Errorf("asked about %v: %v", args.NodeNameToVictims, err)
				}
				_ = json.NewEncoder(rw).Encode(extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: c.answer(args.NodeNameToVictims)})
			}))
			t.Cleanup(server.Close)
			e, err := extender.New(configv1.Extender{URLPrefix: server.URL, PreemptVerb: "preempt"})
			if err != nil {
				t.Fatal(err)
			}
			defer w.start(t, Options{Extenders: []*extender.Extender{e}})()
			w.pods.Add(ranked("high", "1", 10))
			eventually(t, func() bool {
				return strings.Join(w.leaving(), " ") == c.want && strings.Contains(strings.Join(w.eventLog(), "; "), c.note)
			})
		})
	}
}
