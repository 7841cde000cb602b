package flags

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Agreed asks a question that is answered by yes or no. No answer is a no.
func Agreed(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprint(out, question, " [y/N] ")
	answer, _ := bufio.NewReader(in).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
