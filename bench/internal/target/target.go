// Package target starts the servers that are compared, as child processes, and measures them from outside.
//
// All have the same keys, TLS with client certificates, storage on the same disk that is synced before a write is
// acknowledged, and an administrator as client. Stop ends the processes that Start has started, by their ids, and
// removes their directories. If this process dies, they die too.
package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace/millrace/bench/internal/h2"
	"github.com/millrace/millrace/bench/internal/proc"
	"github.com/millrace/millrace/internal/server/pki"
)

// Target is a server that can be started.
type Target struct {
	Name string
	// Bare reports that it is the limit, which serves only a part of the API.
	Bare bool
	// Audit is the mode in which the server writes events of the level Metadata for each request to a file; if empty,
	// it writes none. Brief leaves out the event at the beginning of requests, as policies usually do.
	Audit string
	Brief bool
	// commands are started one after the other; the last serves at the address.
	commands func(p location) []*exec.Cmd
}

// location has the directory and the addresses of a server.
type location struct {
	dir, pki string
	address  string
	ports    []string // two more
	pods     int
	audit    []string // flags
}

// Server is a running target.
type Server struct {
	Target
	Access
	// Took is the time from the first process' start until all is ready.
	Took time.Duration
	// MostAnon is the maximum of anonymous memory until then. The rest of Memory's peak is pages of files, which the
	// system may reclaim.
	MostAnon int64
	Wire     h2.Wire

	dir      string
	location location
	children []*child
}

type child struct {
	command *exec.Cmd
	ended   chan struct{}
}

// Start starts a target below a directory. pods is the number of pods in a list of the limit.
func (t Target) Start(ctx context.Context, below string, pods int) (*Server, error) {
	dir, err := os.MkdirTemp(below, t.Name+"-")
	if err != nil {
		return nil, err
	}
	s := &Server{Target: t, dir: dir}
	if err := s.start(ctx, pods); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		s.Stop()
		return nil, fmt.Errorf("start %s: %w\n%s", t.Name, err, log[max(0, len(log)-2000):])
	}
	return s, nil
}

// Unaudited starts another server like this one, without an audit log.
func (s *Server) Unaudited(ctx context.Context) (*Server, error) {
	t := s.Target
	t.Audit = ""
	return t.Start(ctx, filepath.Dir(s.dir), s.location.pods)
}

// startTimeout is how long a server may take to become ready.
const startTimeout = 90 * time.Second

func (s *Server) start(ctx context.Context, pods int) error {
	p := location{dir: s.dir, pki: filepath.Join(s.dir, "data", "pki"), pods: pods}
	keys, err := pki.Open(p.pki, hosts(), time.Now())
	if err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	p.address, p.ports = ports[0], ports[1:]
	if s.Audit != "" {
		policy := filepath.Join(s.dir, "audit-policy.yaml")
		text := "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
		if s.Brief {
			text += "omitStages: [RequestReceived]\n"
		}
		if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
			return err
		}
		p.audit = []string{"--audit-policy-file", policy, "--audit-log-path", filepath.Join(s.dir, "audit.log"), "--audit-log-mode", s.Audit}
	}
	s.Access, s.location = Access{p.address, keys.Authority.CertPEM, keys.Admin.CertPEM, keys.Admin.KeyPEM}, p
	return s.run(ctx)
}

// run starts the processes, and measures the time until all is ready.
func (s *Server) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s.MostAnon = 0
	began := time.Now()
	if err := s.launch(s.location); err != nil {
		return err
	}
	if err := s.waitReady(ctx); err != nil {
		return err
	}
	s.Took = time.Since(began)
	return nil
}

// hosts returns all names that any of the servers needs in its certificate, so that none makes a new one.
func hosts() []string {
	h := []string{"localhost", "127.0.0.1", "::1", "10.96.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if name, err := os.Hostname(); err == nil {
		h = append(h, name)
	}
	return h
}

// freePorts finds unused ports of the loopback interface.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out, nil
}

func (s *Server) launch(p location) error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close() // the children have their own copy
	for _, c := range s.commands(p) {
		c.Stdout, c.Stderr, c.SysProcAttr = log, log, proc.DieWithParent()
		if err := c.Start(); err != nil {
			return err
		}
		ch := &child{command: c, ended: make(chan struct{})}
		s.children = append(s.children, ch)
		go func() {
			defer close(ch.ended)
			_ = c.Wait() // the error is that it was killed
		}()
	}
	return nil
}

var errEnded = errors.New("the process has ended")

// waitReady repeats the readiness request until it succeeds. A refused connection costs almost nothing, so it asks
// often.
func (s *Server) waitReady(ctx context.Context) error {
	asker := asker{server: s}
	defer asker.close()
	for {
		err := asker.ask(ctx)
		if m, err := s.Memory(); err == nil {
			s.MostAnon = max(s.MostAnon, m.Anon)
		}
		if err == nil {
			return nil
		}
		for _, c := range s.children {
			select {
			case <-c.ended:
				return errEnded
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// asker asks one server whether it is ready. It keeps its connection, because a TLS handshake for each request would
// slow down a server on few processors.
type asker struct {
	server *Server
	conn   *h2.Conn
}

func (a *asker) ask(ctx context.Context) error {
	if a.conn == nil {
		c, err := a.server.Dial(ctx)
		if err != nil {
			return err
		}
		a.conn = c
	}
	answer, err := a.conn.Do(ctx, h2.Request{Method: "GET", Path: "/readyz"})
	if err != nil {
		a.close()
		return err
	}
	if answer.Status != 200 {
		return fmt.Errorf("status %d: %.300s", answer.Status, answer.Body)
	}
	return nil
}

func (a *asker) close() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

// Dial opens a connection as administrator.
func (s *Server) Dial(ctx context.Context) (*h2.Conn, error) {
	return s.Access.Dial(ctx, &s.Wire)
}

// CPU returns the CPU time of all its processes.
func (s *Server) CPU() (time.Duration, error) {
	var sum time.Duration
	for _, c := range s.children {
		t, err := proc.CPU(c.command.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

// Memory returns the memory of all its processes.
func (s *Server) Memory() (proc.Memory, error) {
	var sum proc.Memory
	for _, c := range s.children {
		m, err := proc.MemoryOf(c.command.Process.Pid)
		if err != nil {
			return sum, err
		}
		sum = sum.Add(m)
	}
	return sum, nil
}

// ResetPeak resets the peak of Memory.
func (s *Server) ResetPeak() error {
	for _, c := range s.children {
		if err := proc.ResetPeak(c.command.Process.Pid); err != nil {
			return err
		}
	}
	return nil
}

// endTimeout is how long a process may take to shut down.
const endTimeout = 5 * time.Second

// Restart kills the processes with kill -9, and starts them again with their data on disk. If forget is set, the data
// is removed from the system's memory first, as after a start of the machine.
func (s *Server) Restart(ctx context.Context, forget bool) error {
	for _, c := range s.children {
		if err := c.command.Process.Kill(); err != nil {
			return err
		}
		<-c.ended
	}
	s.children = nil
	if forget {
		if err := forgetFiles(s.dir); err != nil {
			return err
		}
	}
	return s.run(ctx)
}

// Stop ends the processes, the last first, waits for them and removes their directory.
func (s *Server) Stop() {
	for i := len(s.children) - 1; i >= 0; i-- {
		c := s.children[i]
		c.command.Process.Signal(os.Interrupt)
		select {
		case <-c.ended:
		case <-time.After(endTimeout):
			c.command.Process.Kill()
			<-c.ended
		}
	}
	os.RemoveAll(s.dir)
}

// StopAll stops several servers concurrently.
func StopAll(servers []*Server) {
	var ending sync.WaitGroup
	for _, s := range servers {
		ending.Go(s.Stop)
	}
	ending.Wait()
}
