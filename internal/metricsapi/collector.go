package metricsapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// maxConcurrent limits how many nodes are read at the same time. nodeTimeout limits the time for one node.
	maxConcurrent = 64
	nodeTimeout   = 10 * time.Second
)

// Options configure a Server. Kube is required.
type Options struct {
	// Kube is a client that may list nodes and pods and get nodes/proxy.
	Kube kubernetes.Interface
	// MaxAge is the maximum age of a measurement: 15 s by default.
	MaxAge time.Duration
	Logger *slog.Logger
}

// Server serves the API group. It is an http.Handler.
type Server struct {
	Options

	mu    sync.Mutex // guards known
	known map[string]*answer
}

// New returns a Server. Kubelets are read only when a client asks.
func New(o Options) *Server {
	if o.MaxAge == 0 {
		o.MaxAge = 15 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{Options: o, known: map[string]*answer{}}
}

// answer is the result of reading one node. It is valid when done is closed.
type answer struct {
	at      time.Time
	done    chan struct{}
	summary *summary // nil if the node did not answer
}

// summary is the part of a kubelet's /stats/summary that is used here.
type summary struct {
	Node struct {
		CPU    *cpu    `json:"cpu"`
		Memory *memory `json:"memory"`
	} `json:"node"`
	Pods []struct {
		Ref        struct{ Name, Namespace, UID string } `json:"podRef"`
		Containers []struct {
			Name   string  `json:"name"`
			CPU    *cpu    `json:"cpu"`
			Memory *memory `json:"memory"`
		} `json:"containers"`
	} `json:"pods"`
}

type cpu struct {
	Time      time.Time `json:"time"`
	NanoCores *uint64   `json:"usageNanoCores"`
}

type memory struct {
	WorkingSet *uint64 `json:"workingSetBytes"`
}

// askAll reads nodes in parallel, and returns the summaries of those that answered.
func (s *Server) askAll(ctx context.Context, nodes []string) map[string]*summary {
	var all sync.WaitGroup
	var mu sync.Mutex
	found := make(map[string]*summary, len(nodes))
	room := make(chan struct{}, maxConcurrent)
	for _, node := range nodes {
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			if got := s.askNode(ctx, node); got != nil {
				mu.Lock()
				found[node] = got
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return found
}

// askNode returns a node's summary: a recent one, the one that another request is already reading, or a new one.
func (s *Server) askNode(ctx context.Context, node string) *summary {
	s.mu.Lock()
	known := s.known[node]
	if known != nil && time.Since(known.at) < s.MaxAge {
		s.mu.Unlock()
		select {
		case <-known.done:
			return known.summary
		case <-ctx.Done():
			return nil
		}
	}
	asked := &answer{at: time.Now(), done: make(chan struct{})}
	s.known[node] = asked
	s.mu.Unlock()
	defer close(asked.done)
	got, err := s.fetch(ctx, node)
	if err != nil {
		s.Logger.Debug("node statistics cannot be read", "node", node, "err", err)
		s.mu.Lock()
		if s.known[node] == asked { // this client may have disconnected, so the next one must read again
			delete(s.known, node)
		}
		s.mu.Unlock()
		return nil
	}
	asked.summary = got
	return got
}

// fetch reads a kubelet's summary. Hollow nodes share one server, which needs the node's name as a parameter.
func (s *Server) fetch(ctx context.Context, node string) (*summary, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	body, err := s.Kube.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("stats", "summary").Param("node", node).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	got := &summary{}
	if err := json.Unmarshal(body, got); err != nil {
		return nil, fmt.Errorf("decode the summary of node %s: %w", node, err)
	}
	return got, nil
}

// forget drops the answers of nodes that no longer exist.
func (s *Server) forget(nodes []corev1.Node) {
	there := make(map[string]bool, len(nodes))
	for i := range nodes {
		there[nodes[i].Name] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.known {
		if !there[name] {
			delete(s.known, name)
		}
	}
}
