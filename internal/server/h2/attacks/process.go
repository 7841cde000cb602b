package attacks

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// These variables make a process that calls ServeIfAsked a target.
const targetVariable, streamsVariable = "MILLRACE_H2_TARGET", "MILLRACE_H2_STREAMS"

// Process is a server to attack, in its own process.
type Process struct {
	Address string
	command *exec.Cmd
	ask     io.WriteCloser
	answers *bufio.Reader
}

// Start runs this program again as a target that allows that many streams on a connection. Its main function, or its
// TestMain, must call ServeIfAsked.
func Start(ctx context.Context, kind Kind, streams int) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{command: exec.CommandContext(ctx, self)}
	// Two processors are typical for a control plane, and enough to show what costs time.
	p.command.Env = append(os.Environ(), targetVariable+"="+string(kind), streamsVariable+"="+strconv.Itoa(streams), "GOMAXPROCS=2")
	p.command.Stderr = os.Stderr
	if p.ask, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.answers = bufio.NewReader(out)
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	if p.Address, err = p.answers.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the target %s does not start: %w", kind, err)
	}
	p.Address = strings.TrimSpace(p.Address)
	return p, nil
}

// Cost asks the process for its cost so far.
func (p *Process) Cost() (Cost, error) {
	var c Cost
	if _, err := io.WriteString(p.ask, "\n"); err != nil {
		return c, err
	}
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(line, &c)
}

// Close ends the process.
func (p *Process) Close() error {
	p.ask.Close()
	return p.command.Wait()
}

// ServeIfAsked serves and ends the process, if Start has started it as a target. Otherwise it returns at once.
func ServeIfAsked() {
	kind := os.Getenv(targetVariable)
	if kind == "" {
		return
	}
	streams, _ := strconv.Atoi(os.Getenv(streamsVariable))
	t := &target{kind: Kind(kind), streams: streams}
	web, err := t.serve()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(web.Listener.Addr())
	answers := json.NewEncoder(os.Stdout)
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		if err := answers.Encode(t.cost()); err != nil {
			break
		}
	}
	os.Exit(0)
}
