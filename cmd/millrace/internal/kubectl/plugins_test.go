package kubectl

import (
	"slices"
	"testing"
)

// plugins notes which plugin runs. There is one, "hello".
type plugins struct{ ran []string }

func (p *plugins) Lookup(name string) (string, bool) { return "/bin/kubectl-" + name, name == "hello" }

func (p *plugins) Execute(path string, args, _ []string) error {
	p.ran = append([]string{path}, args...)
	return nil
}

func TestAPluginRunsWhereNoCommandHasItsName(t *testing.T) {
	for _, is := range []struct{ called, want []string }{
		{[]string{"millrace", "kubectl", "hello", "you", "-x"}, []string{"/bin/kubectl-hello", "you", "-x"}},
		{[]string{"/tmp/kubectl", "hello", "you"}, []string{"/bin/kubectl-hello", "you"}},
		{[]string{"millrace", "kubectl", "get", "hello"}, nil},
		{[]string{"millrace", "kubectl"}, nil},
		{[]string{"millrace", "nosuch", "hello"}, nil},
		{[]string{"millrace", "help", "hello"}, nil},
	} {
		p := &plugins{}
		command(own(is.called), p)
		if !slices.Equal(p.ran, is.want) {
			t.Errorf("%v: %v, want %v", is.called, p.ran, is.want)
		}
	}
}
