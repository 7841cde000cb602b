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
	// atOnce bounds how many nodes are asked at the same time, and patience is how long one may take.
	atOnce   = 64
	patience = 10 * time.Second
)

// Options say whom to ask. Kube is required.
type Options struct {
	// Kube reaches the API server, as somebody who may list nodes and pods and reach nodes/proxy.
	Kube kubernetes.Interface
	// MaxAge is how old figures may be: 15 s by default.
	MaxAge time.Duration
	Logger *slog.Logger
}

// Server answers for the group. It is an http.Handler.
type Server struct {
	Options

	mu    sync.Mutex // guards known
	known map[string]*answer
}

// New makes a Server. It asks nobody until it is asked.
func New(o Options) *Server {
	if o.MaxAge == 0 {
		o.MaxAge = 15 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{Options: o, known: map[string]*answer{}}
}

// answer is what a node said, or will have said when done is closed.
type answer struct {
	at      time.Time
	done    chan struct{}
	summary *summary // nil if the node did not answer
}

// summary is the part of a kubelet's /stats/summary that counts here.
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

// ask asks nodes, all at the same time, and returns what those said that answered.
func (s *Server) ask(ctx context.Context, nodes []string) map[string]*summary {
	var all sync.WaitGroup
	var mu sync.Mutex
	found := make(map[string]*summary, len(nodes))
	room := make(chan struct{}, atOnce)
	for _, node := range nodes {
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			if told := s.of(ctx, node); told != nil {
				mu.Lock()
				found[node] = told
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return found
}

// of is what a node says: what it said a moment ago, what it is being asked by another client, or what it says now.
func (s *Server) of(ctx context.Context, node string) *summary {
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
	told, err := s.read(ctx, node)
	if err != nil {
		s.Logger.Debug("node does not tell what it uses", "node", node, "err", err)
		s.mu.Lock()
		if s.known[node] == asked { // the client may have gone, and the next one is to ask again
			delete(s.known, node)
		}
		s.mu.Unlock()
		return nil
	}
	asked.summary = told
	return told
}

// read asks a kubelet. Hollow nodes share one server, which is told by the parameter which of them is meant.
func (s *Server) read(ctx context.Context, node string) (*summary, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := s.Kube.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("stats", "summary").Param("node", node).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	told := &summary{}
	if err := json.Unmarshal(body, told); err != nil {
		return nil, fmt.Errorf("decode the summary of node %s: %w", node, err)
	}
	return told, nil
}

// forget drops what nodes said that are not there any more.
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
