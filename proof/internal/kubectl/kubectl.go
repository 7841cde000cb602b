// Package kubectl runs kubectl's own commands in the process of a test.
package kubectl

import (
	"io"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// Exit is how a command ended: what it said last, and its exit code.
type Exit struct {
	Message string
	Code    int
}

// exitByPanic makes commands panic with an Exit where they would end the process.
var exitByPanic = sync.OnceFunc(func() {
	cmdutil.BehaviorOnFatal(func(message string, code int) { panic(Exit{message, code}) })
})

// Run runs a command with a kubeconfig. What discovery finds is cached beside that.
func Run(kubeconfig string, out, errOut io.Writer, args ...string) Exit {
	exitByPanic()
	ended := make(chan Exit)
	go func() { ended <- run(kubeconfig, out, errOut, args) }()
	return <-ended
}

// run has a goroutine of its own, because kubectl exits where it finds an error.
func run(kubeconfig string, out, errOut io.Writer, args []string) (e Exit) {
	defer func() {
		if p := recover(); p != nil {
			var ok bool
			if e, ok = p.(Exit); !ok {
				panic(p)
			}
		}
	}()
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	cache := filepath.Join(filepath.Dir(kubeconfig), "cache")
	flags.KubeConfig, flags.CacheDir = &kubeconfig, &cache
	k := cmd.NewKubectlCommand(cmd.KubectlOptions{
		ConfigFlags: flags, Arguments: append([]string{"kubectl"}, args...),
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: errOut},
	})
	k.SetArgs(args)
	k.SetOut(out)
	k.SetErr(errOut)
	k.SilenceErrors, k.SilenceUsage = true, true
	if err := k.Execute(); err != nil {
		return Exit{"error: " + err.Error(), 1}
	}
	return Exit{}
}
