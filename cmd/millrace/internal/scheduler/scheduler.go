// Package scheduler is `millrace scheduler`: the scheduler alone, with the flags of kube-scheduler.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/cmd/millrace/internal/client"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/ports"
	"github.com/millrace/millrace/internal/scheduler"
	"github.com/millrace/millrace/internal/scheduler/config"
	"github.com/millrace/millrace/internal/scheduler/prommetrics"
	"github.com/millrace/millrace/loop"
)

// Flags are the flags of `millrace scheduler`, under kube-scheduler's names.
type Flags struct {
	client.Flags
	client.ElectionFlags
	version       flags.Version
	gates         flags.Gates
	secure        ports.Secure
	file, writeTo string
	maxWait       time.Duration
}

func Command() *cobra.Command {
	f := &Flags{}
	c := &cobra.Command{
		Use:   "scheduler",
		Short: "Run the scheduler alone",
		Long:  "Run the scheduler alone, with the flags of kube-scheduler, against any Kubernetes API server.",
		Args:  cobra.NoArgs,
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			if f.version.Print(c.OutOrStdout()) {
				return nil
			}
			return f.run(ctx, c)
		}),
	}
	f.Register(c)
	return c
}

func (f *Flags) Register(c *cobra.Command) {
	fl := c.Flags()
	f.Flags.Add(c)
	f.Pace.Add(fl)
	f.ElectionFlags.Add(c, "kube-scheduler")
	f.version.Add(fl)
	f.secure.Add(c, 10259)
	f.gates.Add(fl)
	flags.UnusedByClients.Add(fl)
	fl.StringVar(&f.file, "config", "", "file with a KubeSchedulerConfiguration; flags for leader election override it, and it overrides those for clients and profiles")
	fl.StringVar(&f.writeTo, "write-config-to", "", "write the configuration with all defaults to this file, and exit")
	fl.DurationVar(&f.maxWait, "pod-max-in-unschedulable-pods-duration", 5*time.Minute, "how long an unschedulable pod waits before it is tried again although nothing has changed")
}

func (f *Flags) run(ctx context.Context, c *cobra.Command) error {
	file := config.Default()
	if f.file != "" {
		var err error
		if file, err = config.Load(f.file); err != nil {
			return fmt.Errorf("--config: %w", err)
		}
		f.take(c, file)
		if err := f.takeExplicit(); err != nil {
			return fmt.Errorf("--config: %w", err)
		}
	}
	if f.writeTo != "" {
		return writeConfig(f.writeTo, file)
	}
	election, err := f.Election()
	if err != nil {
		return err
	}
	if err := f.secure.Check(); err != nil {
		return err
	}
	runners, tells, clients, err := f.runners(ctx, c, file)
	if err != nil {
		return err
	}
	if election, err = client.Measured(election, f.Registry); err != nil {
		return err
	}
	if election != nil {
		runners = loop.Elected(clients, *election, runners)
	}
	return loop.Run(ctx, clients, runners, tells)
}

// take sets the flags that were not given from the file, and those that a file overrides.
func (f *Flags) take(c *cobra.Command, file *config.File) {
	given := func(name string) bool { return c.Flags().Changed(name) }
	e := &file.LeaderElection
	for name, set := range map[string]func(){
		"kubeconfig":                      func() { f.Kubeconfig = file.ClientConnection.Kubeconfig },
		"leader-elect":                    func() { f.Elect = *e.LeaderElect },
		"leader-elect-lease-duration":     func() { f.Lease = e.LeaseDuration.Duration },
		"leader-elect-renew-deadline":     func() { f.Renew = e.RenewDeadline.Duration },
		"leader-elect-retry-period":       func() { f.Retry = e.RetryPeriod.Duration },
		"leader-elect-resource-lock":      func() { f.Lock = e.ResourceLock },
		"leader-elect-resource-name":      func() { f.ElectionFlags.Name = e.ResourceName },
		"leader-elect-resource-namespace": func() { f.Namespace = e.ResourceNamespace },
	} {
		if !given(name) {
			set()
		}
	}
	f.Pace.ContentType = file.ClientConnection.ContentType
	f.secure.Profiling = *file.EnableProfiling
}

// takeExplicit sets what the file itself says. The defaults of kube-scheduler, a limit of 50 requests per second and a
// profile of what goroutines wait for, do not apply here: they would only cost time.
func (f *Flags) takeExplicit() error {
	text, err := os.ReadFile(f.file)
	if err != nil {
		return err
	}
	said := struct {
		ClientConnection struct {
			QPS   float32 `json:"qps"`
			Burst *int    `json:"burst"`
		} `json:"clientConnection"`
		EnableContentionProfiling bool `json:"enableContentionProfiling"`
	}{}
	if err := yaml.Unmarshal(text, &said); err != nil {
		return err
	}
	f.Pace.PerSecond, f.secure.Contention = said.ClientConnection.QPS, said.EnableContentionProfiling
	f.Pace.Burst = 100
	if b := said.ClientConnection.Burst; b != nil {
		f.Pace.Burst = *b
	}
	return nil
}

// runners connects to the API server and returns the scheduler, and the server of its health and metrics.
func (f *Flags) runners(ctx context.Context, c *cobra.Command, file *config.File) (schedules, tells loop.Runner, clients *loop.Clients, err error) {
	if f.maxWait <= 0 {
		return nil, nil, nil, errors.New("--pod-max-in-unschedulable-pods-duration is not more than 0")
	}
	o := scheduler.Options{Backlog: scheduler.Backlog{MaxWait: f.maxWait}}
	if err := config.Apply(file, &o); err != nil {
		return nil, nil, nil, err
	}
	clients, reached, err := f.Clients(c.OutOrStdout())
	if err != nil {
		return nil, nil, nil, err
	}
	flags.UnusedByClients.Warn(c.Flags(), "kube-scheduler", clients.Log)
	f.gates.Warn(clients.Log)
	told, err := ports.NewTelling(f.Registry, clients, func() map[string]any { return map[string]any{"componentconfig": file} })
	if err != nil {
		return nil, nil, nil, err
	}
	made := scheduler.For(clients)
	made.Profiles, made.Backlog, made.Extenders = o.Profiles, o.Backlog, o.Extenders
	if made.Metrics, err = prommetrics.New(told.Metrics); err != nil {
		return nil, nil, nil, err
	}
	told.More = map[string]http.Handler{"GET /metrics/resources": promhttp.HandlerFor(prommetrics.Resources(made.Watched.Pods), promhttp.HandlerOpts{})}
	tells, err = f.secure.Serve(ctx, clients, reached.CAData, told)
	return scheduler.New(made), tells, clients, err
}

func writeConfig(path string, file *config.File) error {
	text, err := yaml.Marshal(file)
	if err != nil {
		return fmt.Errorf("--write-config-to: %w", err)
	}
	return os.WriteFile(path, text, 0o600)
}
