from iosim.paper import figure2, load
from iosim.plots.paper import figure as draw

figure = draw(figure2(load()))
