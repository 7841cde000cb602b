package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	nameServer = "127.0.0.1:5353"
	// askers is the number of sockets that send questions.
	askers = 8
	// askDuration is how long each server is measured.
	askDuration = 10 * time.Second
	// answerTimeout is how long an answer is waited for.
	answerTimeout = time.Second
)

// compareNames measures each DNS server, one after the other.
func (s *server) compareNames(ctx context.Context, o options) error {
	corefile := filepath.Join(s.directory, "Corefile")
	text := fmt.Sprintf("cluster.local:5353 {\n bind 127.0.0.1\n kubernetes cluster.local {\n  kubeconfig %s\n }\n}\n", s.kubeconfig())
	if err := os.WriteFile(corefile, []byte(text), 0o600); err != nil {
		return err
	}
	servers := []contender{{name: "millrace", args: []string{
		o.millrace, "dns", "--kubeconfig", s.kubeconfig(), "--listen", nameServer, "--forward", "",
	}}}
	if o.coreDNS != "" {
		servers = append(servers, contender{name: "coredns", args: []string{o.coreDNS, "-conf", corefile}})
	}
	fmt.Println("server\tquestions/s\tanswers/s\tp50 ms\tp99 ms\tlost\tCPU µs each\tMiB\tpeak MiB")
	for range o.runs {
		for _, c := range servers {
			line, err := s.names(ctx, c, o)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			fmt.Printf("%s\t%s\n", c.name, line)
		}
	}
	return nil
}

// names measures one server.
func (s *server) names(ctx context.Context, c contender, o options) (string, error) {
	said := &bytes.Buffer{}
	process := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	process.Stdout, process.Stderr, process.SysProcAttr = said, said, dieWithParent()
	if err := process.Start(); err != nil {
		return "", err
	}
	defer func() {
		_ = process.Process.Kill()
		_ = process.Wait() // the error is that it was killed
	}()
	if err := answers(ctx, o.services-1); err != nil {
		text := said.String()
		return "", fmt.Errorf("%w; what it said last:\n%s", err, text[max(0, len(text)-2000):])
	}
	if err := waitIdle(ctx, process.Process.Pid); err != nil {
		return "", err
	}
	before := cpu(process.Process.Pid)
	var asked sync.WaitGroup
	all := make([]asker, askers)
	for i := range all {
		asked.Go(func() { all[i].run(ctx, i, o) })
	}
	asked.Wait()
	used := cpu(process.Process.Pid) - before
	var times []time.Duration
	sent := 0
	for _, a := range all {
		if a.err != nil {
			return "", a.err
		}
		times, sent = append(times, a.times...), sent+a.sent
	}
	if len(times) == 0 {
		return "", errors.New("no question was answered")
	}
	slices.Sort(times)
	ms := func(share int) float64 { return float64(times[len(times)*share/100].Microseconds()) / 1000 }
	rss, peak := memory(process.Process.Pid)
	return fmt.Sprintf("%.0f\t%.0f\t%.2f\t%.2f\t%d\t%.1f\t%d\t%d", float64(sent)/askDuration.Seconds(), float64(len(times))/askDuration.Seconds(), ms(50), ms(99), sent-len(times),
		float64(used.Microseconds())/float64(len(times)), rss>>10, peak>>10), nil
}

func question(i int, id uint16) *dns.Msg {
	m := new(dns.Msg).SetQuestion(serviceName(i)+"."+namespace+".svc.cluster.local.", dns.TypeA)
	m.Id = id
	return m
}

// answers waits until a server can answer the name of a service.
func answers(ctx context.Context, i int) error {
	client := &dns.Client{Timeout: answerTimeout}
	for range 300 {
		m, _, err := client.ExchangeContext(ctx, question(i, 1), nameServer)
		if err == nil && len(m.Answer) > 0 {
			return nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("it does not answer")
}

// asker sends questions at its share of the rate, without waiting for the answers of earlier ones, and records the
// times until the answers.
type asker struct {
	sent  int
	times []time.Duration
	err   error
}

func (a *asker) run(ctx context.Context, number int, o options) {
	conn, err := net.Dial("udp", nameServer)
	if err != nil {
		a.err = err
		return
	}
	defer conn.Close()
	var mu sync.Mutex
	var waiting [1 << 16]time.Time // guarded by mu: when the question with an id was sent; zero: answered
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return // closed, or no answer for long after the last question
			}
			if n < 12 {
				continue
			}
			id := int(buffer[0])<<8 | int(buffer[1])
			mu.Lock()
			if at := waiting[id]; !at.IsZero() {
				a.times = append(a.times, time.Since(at))
				waiting[id] = time.Time{}
			}
			mu.Unlock()
		}
	})
	begun := time.Now()
	for {
		passed := time.Since(begun)
		if passed > askDuration || ctx.Err() != nil {
			break
		}
		for due := int(passed.Seconds() * float64(o.perTurn) / askers); a.sent < due; a.sent++ {
			packed, err := question((a.sent*askers+number)%o.services, uint16(a.sent)).Pack()
			if err != nil {
				a.err = err
				return
			}
			mu.Lock()
			waiting[uint16(a.sent)] = time.Now()
			mu.Unlock()
			_, _ = conn.Write(packed) // a question that cannot be sent counts as lost
		}
		time.Sleep(500 * time.Microsecond)
	}
	_ = conn.SetReadDeadline(time.Now().Add(answerTimeout))
}
