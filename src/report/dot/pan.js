// Drag to pan, scroll to zoom around the pointer, press 0 to show the whole graph.
(() => {
    const svg = document.documentElement;
    const whole = svg.viewBox.baseVal;
    const start = [whole.x, whole.y, whole.width, whole.height];
    let grip = null;

    function pointAt(event) {
        return new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    }

    function look(x, y, width, height) {
        svg.setAttribute("viewBox", [x, y, width, height].join(" "));
    }

    svg.addEventListener("wheel", event => {
        event.preventDefault();
        const view = svg.viewBox.baseVal, at = pointAt(event);
        const by = Math.exp(Math.max(-100, Math.min(100, event.deltaY)) / 400);
        look(at.x + (view.x - at.x) * by, at.y + (view.y - at.y) * by, view.width * by, view.height * by);
    }, { passive: false });

    svg.addEventListener("pointerdown", event => {
        if (event.button === 0) {
            grip = pointAt(event);
            svg.setPointerCapture(event.pointerId);
        }
    });
    svg.addEventListener("pointermove", event => {
        if (!grip) {
            return;
        }
        const view = svg.viewBox.baseVal, at = pointAt(event);
        look(view.x + grip.x - at.x, view.y + grip.y - at.y, view.width, view.height);
    });
    svg.addEventListener("pointerup", () => {
        grip = null;
    });
    document.addEventListener("keydown", event => {
        if (event.key === "0" || event.key === "Escape") {
            look(...start);
        }
    });
})();
