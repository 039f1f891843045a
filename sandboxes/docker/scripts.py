"""What is run by a container's own `/bin/sh`."""

from __future__ import annotations

# Says its number on standard error first: a signal needs it later. A missing folder or program ends with 127.
WRAPPER = 'echo $$ >&2; cd -- "$0" || exit 127; {merge}exec "$@"'

# The same on four pipes of its own (a short here-document is one), which the host opens before it says a line. Until
# then each is open both ways, and nobody waits for the other.
OWN_PIPES = r"""exec 3<<E 4<<E 5<<E 6<<E
x
E
x
E
x
E
x
E
read -r x <&3; read -r x <&4; read -r x <&5; read -r x <&6
exec 3<>/proc/self/fd/3 4<>/proc/self/fd/4 5<>/proc/self/fd/5 6<>/proc/self/fd/6
echo $$ >&2
read -r x || exit 125
exec 3</proc/self/fd/3 4>/proc/self/fd/4 1>/proc/self/fd/5 2>{errors} 0</dev/null 5<&- 6<&-
cd -- "$0" || exit 127
exec "$@"
"""

# Says whether a here-document is a pipe to this shell.
HAS_PIPES = "exec 3<<E\nx\nE\n[ -p /proc/self/fd/3 ] && echo pipes"

# NUMBER SIGNAL SCOPE SINCE NEWEST: fields 2, 4 and 20 after the name are the parent, the session and the start.
# Children count when they are younger than the mark (see `Process.mark`), and then all that they started. One that
# ended on its own meanwhile is no failure, and one that starts others for ever cannot keep it looking.
KILL = r"""
tell() { kill -s "$2" -- "$1" 2>/dev/null; }
root=$1 signal=$2 scope=$3 since=$4 newest=$5
case $scope in
process) tell "$root" "$signal" ;;
group) tell "-$root" "$signal" ;;
session|children)
    found=" "
    for pass in 1 2 3 4 5 6 7 8; do
        before=$found
        for file in /proc/[0-9]*/stat; do
            { read -r line <"$file"; } 2>/dev/null || continue
            pid=${line%% *}
            set -- ${line##*) }
            case $found in *" $pid "*) continue ;; esac
            if [ "$scope" = session ]; then
                [ "$4" = "$root" ] && found="$found$pid "
            elif [ "$2" = "$root" ]; then
                [ "$pid" -gt "$newest" ] && [ "${20}" -ge "$since" ] && found="$found$pid "
            else
                case $found in *" $2 "*) found="$found$pid " ;; esac
            fi
        done
        [ "$found" = "$before" ] && break
    done
    for pid in $found; do tell "$pid" "$signal"; done ;;
esac
exit 0
"""
