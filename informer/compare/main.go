// Command compare measures this project's informers and client-go's side by side: the same machine, the same run, the
// same server. The server and each candidate are separate processes, so that heaps and CPU time are measured
// separately. They are connected over loopback. The server only sends prepared pods of about 6 KB of JSON.
//
//	go run ./informer/compare -pods 100000
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"
	"time"
)

// Result has the measurements of one candidate.
type Result struct {
	Candidate    string
	Sync         time.Duration // until the first list is complete
	PeakHeap     uint64        // bytes, sampled until the first list is complete
	PeakRSS      uint64        // bytes, the kernel's figure when the first list is complete
	Settled      uint64        // bytes of live heap, after garbage collection
	EventCPU     time.Duration // of the process, for each event, with one handler that reads objects
	Latency50    time.Duration // from the write request to the handler
	Latency99    time.Duration
	Fifty        time.Duration // wall time for each event with fifty handlers
	FiftyCPU     time.Duration // CPU time for each event with fifty handlers
	IndexCold    time.Duration // one node's pods by index, each node for the first time
	IndexWarm    time.Duration // one node's pods by index, the same node each time
	ObjectsFound int
}

func main() {
	var (
		pods      = flag.Int("pods", 100_000, "number of pods")
		only      = flag.String("only", "", "candidates to run, separated by commas; empty: all")
		format    = flag.String("format", "protobuf", "what the server speaks: protobuf or json")
		pages     = flag.Bool("pages", false, "make the server refuse to stream lists")
		serve     = flag.Bool("serve", false, "be the server")
		candidate = flag.String("candidate", "", "be this candidate")
		address   = flag.String("server", "", "the server's address, for a candidate")
		profile   = flag.String("profile", "", "write what each candidate spends its time on with fifty handlers into this directory")
	)
	flag.Parse()
	var err error
	switch {
	case *serve:
		err = serveForever(*pods, *pages)
	case *candidate != "":
		err = measure(*candidate, *address, *format, *profile, *pods)
	default:
		err = compare(*pods, *format, *pages, *only, *profile)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func compare(pods int, format string, pages bool, only, profile string) error {
	server := exec.Command(os.Args[0], "-serve", fmt.Sprint("-pods=", pods), fmt.Sprint("-pages=", pages))
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	var results []Result
	for _, name := range candidateNames {
		if only != "" && !strings.Contains(","+only+",", ","+name+",") {
			continue
		}
		result, err := runCandidate(name, strings.TrimSpace(address), format, profile, pods)
		if err != nil {
			return err
		}
		results = append(results, result)
	}
	return report(results)
}

func runCandidate(name, address, format, profile string, pods int) (Result, error) {
	var result Result
	command := exec.Command(os.Args[0], "-candidate", name, "-server", address, "-format", format, "-profile", profile, fmt.Sprint("-pods=", pods))
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return result, fmt.Errorf("%s: %w", name, err)
	}
	return result, json.Unmarshal(out, &result)
}

func report(results []Result) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "candidate\tsync\tpeak heap\tpeak RSS\tsettled\tCPU/event\tlatency p50\tp99\t50 handlers\tCPU\ta handler more\tby index, first\tagain\t")
	mib := func(n uint64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%v\t%s\t%s\t%s\t%v\t%v\t%v\t%v\t%v\t%v\t%v\t%v\t\n", r.Candidate, r.Sync.Round(time.Millisecond),
			mib(r.PeakHeap), mib(r.PeakRSS), mib(r.Settled), r.EventCPU, r.Latency50, r.Latency99, r.Fifty, r.FiftyCPU, (r.FiftyCPU-r.EventCPU)/49, r.IndexCold, r.IndexWarm)
	}
	return w.Flush()
}
