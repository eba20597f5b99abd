#!/usr/bin/env bash
# Opens a report in Chromium at desktop and phone width, light and dark, without a network, and saves pictures of it.
#
#     apt-get install -y chromium
#     ci/screenshots.sh sinew-demo/index.html screenshots/
#
# Fails if the page is over 5 MB, asks for anything from the network, scrolls sideways at phone width, or stays blank.
set -euo pipefail
page=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)

bytes=$(stat -c %s "$page")
[ "$bytes" -lt 5000000 ] || { echo "$page is $bytes bytes, over 5 MB"; exit 1; }
if grep -Eo '(src|href)="(https?:)?//[^"]*"|@import|url\(https?:' "$page"; then
    echo "$page asks for something from the network"
    exit 1
fi

flags=(--headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=2000 --host-resolver-rules="MAP * ~NOTFOUND")
shoot() { # name width height flags…
    local name=$1 width=$2 height=$3
    shift 3
    "$chromium" "${flags[@]}" "$@" --window-size="$width,$height" --screenshot="$folder/$name.png" "file://$page" 2>/dev/null
    local size
    size=$(stat -c %s "$folder/$name.png")
    [ "$size" -gt 20000 ] || { echo "$name.png looks blank ($size bytes)"; exit 1; }
    echo "$folder/$name.png"
}
shoot desktop-light 1280 3800
shoot desktop-dark 1280 3800 --blink-settings=preferredColorScheme=0
shoot phone-light 390 4200
shoot phone-dark 390 4200 --blink-settings=preferredColorScheme=0

# A headless window is never narrower than 500 pixels, so the phone's width is measured in a frame of its own.
probe=$(mktemp --suffix=.html)
trap 'rm -f "$probe"' EXIT
cat > "$probe" <<HTML
<iframe id="f" src="file://$page" style="width:390px;height:800px;border:0"></iframe>
<script>document.getElementById("f").onload = (e) => {
  const d = e.target.contentDocument.documentElement;
  document.title = "wide:" + (d.scrollWidth > d.clientWidth ? d.scrollWidth : "no");
};</script>
HTML
wide=$("$chromium" "${flags[@]}" --allow-file-access-from-files --dump-dom "file://$probe" 2>/dev/null | grep -o 'wide:[a-z0-9]*' | head -1)
[ "$wide" = "wide:no" ] || { echo "the page scrolls sideways at phone width (${wide:-not measured})"; exit 1; }
echo "no sideways scrolling at 390 pixels"
